"""Jobs parked at a review, and effects in every state, without a worker and without LangGraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.effects import EffectStatus, Outcome, Step, Terms
from signoff.domain.jobs import Job, JobStatus, SubmitJob
from signoff.domain.pauses import ReviewPause
from signoff.domain.policy import Policy, allow, deny, review
from signoff.domain.running import fail, finish, hold, park
from signoff.domain.submitting import submit_job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.leases import claim
from signoff.infra.postgres.store import PostgresStore

AGENT = "desk"
PRODUCER = Principal("shop", PrincipalKind.service, frozenset(), frozenset({Right.submit}))
OTHER_PRODUCER = Principal("other-shop", PrincipalKind.service, frozenset(), frozenset({Right.submit}))
REVIEWER = Principal("rita", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.review}))
SECOND_REVIEWER = Principal("ravi", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.review}))
STRANGER = Principal("sam", PrincipalKind.person, frozenset({"legal"}), frozenset({Right.review}))
OPERATOR = Principal("olga", PrincipalKind.person, frozenset(), frozenset({Right.operate}))
EVERYBODY = (PRODUCER, OTHER_PRODUCER, REVIEWER, SECOND_REVIEWER, STRANGER, OPERATOR)

POLICY = Policy(
    [
        deny("refund", when="args.amount > 1000", name="too much", reviewers=["finance"]),
        review("refund", when="args.amount > 500", reviewers=["directors"], name="much"),
        review("refund", reviewers=["finance"], name="refunds"),
        review("send_email", reviewers=["finance"], name="mails"),
        allow("lookup_order"),
    ]
)
REFUND_SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["order", "amount"],
}


@dataclass(frozen=True)
class Parked:
    """A job that waits for its review."""

    job_id: UUID
    thread_id: str
    review_id: UUID


async def people(store: PostgresStore) -> None:
    """Creates everybody, and registers the agent as a worker would."""
    async with store.begin() as tx:
        for who in EVERYBODY:
            await tx.principals.create(who)
        await tx.agents.register(AGENT, {}, POLICY)


def refund(amount: int = 30, **changes: Any) -> dict[str, Any]:
    """A call of `refund` as the gate judged it, without its operation id, which needs the thread."""
    args = {"order": "A-1", "amount": amount}
    message_id = changes.pop("message_id", f"message-{uuid4()}")
    call = {
        "message_id": message_id,
        "ordinal": 0,
        "edits": 0,
        "tool_call_id": f"call-{uuid4()}",
        "tool": "refund",
        "args": args,
        "unreadable_args": None,
        "digest": call_digest("refund", args),
        "description": "A refund",
        "rule": "refunds",
        "reason": "'refunds' says review",
        "decisions": ["approve", "edit", "reject", "respond"],
        "reviewers": ["finance"],
        "args_schema": REFUND_SCHEMA,
        "approval_valid_for_seconds": None,
        "deadline_seconds": None,
    }
    return {**call, **changes}


async def submitted(store: PostgresStore, who: Principal = PRODUCER, **fields: Any) -> Job:
    """A job as a producer submits it."""
    command = SubmitJob(**{"agent": AGENT, "input": "Refund order A-1", **fields})
    return (await submit_job(store, NoHints(), command, who, "test")).job


async def claimed(store: PostgresStore, job_id: UUID) -> Job:
    """The job as a worker claims it."""
    async with store.connection() as conn:
        found = await claim(conn, worker="worker-1", lease=timedelta(minutes=5), max_tries=100, job_id=job_id)
    assert found is not None
    return found.job


async def parked(store: PostgresStore, *calls: Mapping[str, Any], who: Principal = PRODUCER, **fields: Any) -> Parked:
    """A job that waits for a review of these calls; of one refund if none are given."""
    job = await claimed(store, (await submitted(store, who, **fields)).id)
    items = tuple(_with_operation(call, job.thread_id) for call in calls or (refund(),))
    pause = ReviewPause(f"interrupt-{uuid4()}", items, POLICY.digest)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        assert await park(tx, job, [pause], "checkpoint-1") is JobStatus.awaiting_review
        reviews = await tx.reviews.of_job(job.id)
    return Parked(job.id, job.thread_id, reviews[-1].id)


def _with_operation(call: Mapping[str, Any], lineage_root: str) -> dict[str, Any]:
    operation = operation_id(lineage_root, call["message_id"], call["ordinal"], call["edits"])
    return {**call, "operation_id": operation}


async def ended(store: PostgresStore, job_id: UUID, *, well: bool = True) -> None:
    """Claims the job and ends it, well or as failed."""
    job = await claimed(store, job_id)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        await (finish(tx, job, {"answer": "Done."}) if well else fail(tx, job, "step_limit", "too many rounds"))


async def held(store: PostgresStore, job_id: UUID, operations: Sequence[str] = ()) -> None:
    """Claims the job and parks it for an operator."""
    job = await claimed(store, job_id)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        await hold(tx, job, "effect_held", "settle the effect", operations=list(operations))


async def tried(store: PostgresStore, job_id: UUID, operation: str, *steps: Step, outcome: Outcome) -> None:
    """Claims the job, sends its planned effect, ends that attempt with `outcome` and goes the steps; holds the job."""
    job = await claimed(store, job_id)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        effect = await tx.effects.lock(operation)
        assert effect is not None
        effect = await tx.effects.dispatch(effect, Terms(), fence=job.fence, worker="worker-1")
        for step in steps:
            error = (str(outcome), "as the test wants it")
            ends = outcome if step is steps[0] else None
            assert await tx.effects.move(effect, step, actor="test", error=error, outcome=ends)
            effect = await tx.effects.lock(operation)
            assert effect is not None
        await hold(tx, job, "effect_held", "settle the effect", operations=[operation])


IN_DOUBT = (Step(EffectStatus.in_doubt, doubt=True, reason="no answer"),)
FAILED = (Step(EffectStatus.failed, doubt=False, reason="refused"),)
