"""The executor on Postgres, without a graph that could have stopped anything: what runs, and what does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.tools import BaseTool, tool

from signoff.domain import Policy, Rule, allow, deny, review
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import DigestMismatch, LeaseLost
from signoff.domain.jobs import Job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Agent, effect
from signoff.workers.answered import Answered
from signoff.workers.calls import Call
from signoff.workers.executor import Executor, Run
from signoff.workers.faults import NoFaults
from signoff.workers.graph import Pending, Told
from signoff.workers.guarding import Guard
from tests.support import parked as world
from tests.support.api import open_store
from tests.support.parked import REVIEWER, claimed, parked, submitted

pytestmark = pytest.mark.anyio

MESSAGE = "message-1"
ARGS = {"order": "A-1", "amount": 30}
FINANCE = [review("refund", reviewers=["finance"])]
FREELY = [allow("*", name="all of it")]
UNREADABLE = [allow("refund", when="args.nothing > 1", reviewers=["finance"])]


class Till:
    """The outside world: what was really paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    def tool(self) -> BaseTool:
        @tool
        def refund(order: str, amount: int) -> str:
            """Pays back."""
            self.paid.append((order, amount))
            return "paid"

        return effect("keyed", window=timedelta(hours=1))(refund)


class Bench:
    """A claimed job, and an executor of its run."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.till = Till()

    async def executor(self, job: Job, rules: list[Rule], *, lease_seconds: float = 60.0) -> Executor:
        task = asyncio.current_task()
        assert task is not None
        guard = Guard(task, claimed_at=time.monotonic(), lease_seconds=lease_seconds)
        saver = RunSaver(self.store.pool, thread_id=job.thread_id, job_id=job.id, head=None)
        agent = Agent(name=world.AGENT, tools=[self.till.tool()], policy=Policy(rules))
        async with self.store.begin() as tx:
            await tx.agents.register(world.AGENT, agent.describe(), agent.loaded_policy)
        run = Run(job, job.thread_id, "worker-1", guard, Answered(job.thread_id))
        return Executor(self.store, saver, agent, run, "test", NoFaults())

    async def decided(self, *decisions: dict[str, Any]) -> Job:
        """A job whose refund of ARGS was an item of a review, decided so if at all; claimed again."""
        job = await parked(self.store, world.refund(30, message_id=MESSAGE))
        if decisions:
            answers = parse_answers({"decisions": list(decisions)})
            await decide_review(
                self.store, NoHints(), job.review_id, answers, REVIEWER, door="test", environment="test"
            )
        else:
            await self.sql("UPDATE signoff.jobs SET status = 'queued' WHERE id = %s", job.job_id)
        return await claimed(self.store, job.job_id)

    async def fresh(self) -> Job:
        return await claimed(self.store, (await submitted(self.store)).id)

    async def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        async with self.store.connection() as conn:
            cursor = await conn.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def effect(self) -> dict[str, Any]:
        (row,) = await self.sql("SELECT * FROM signoff.effects")
        return row


@pytest.fixture
async def bench(database_url: str) -> AsyncIterator[Bench]:
    async with open_store(database_url) as services:
        yield Bench(services.store)


def call_of(job: Job, args: dict[str, Any] = ARGS, *, tool_name: str = "refund", digest: str | None = None) -> Call:
    """The call as a graph would hand it over that lets everything pass."""
    return Call(
        operation_id=operation_id(job.thread_id, MESSAGE, 0, 0),
        message_id=MESSAGE,
        ordinal=0,
        edits=0,
        tool_call_id="c1",
        tool=tool_name,
        args=args,
        unreadable_args=None,
        digest=digest or call_digest(tool_name, args),
        verdict="allow",
        rule="a rule",
        reason="because",
        policy_digest="p",
        decisions=[],
        reviewers=[],
        deadline_seconds=None,
        approval_valid_for_seconds=None,
        description="",
        edited=False,
    )


def text_of(outcome: Told | Pending) -> str:
    assert isinstance(outcome, Told)
    return str(outcome.message.text)


async def test_an_approved_call_runs_as_it_was_approved(bench: Bench) -> None:
    job = await bench.decided({"type": "approve"})
    outcome = await (await bench.executor(job, FINANCE)).execute(call_of(job))
    assert text_of(outcome) == "paid"
    assert bench.till.paid == [("A-1", 30)]
    assert (await bench.effect())["decision_id"] is not None


@pytest.mark.parametrize("digest", [None, call_digest("refund", ARGS)])
async def test_an_approved_call_with_other_arguments_is_an_error(bench: Bench, digest: str | None) -> None:
    job = await bench.decided({"type": "approve"})
    other = call_of(job, {"order": "A-1", "amount": 31}, digest=digest)
    with pytest.raises(DigestMismatch):
        await (await bench.executor(job, FREELY)).execute(other)
    assert bench.till.paid == []


async def test_a_call_that_was_refused_never_runs_by_a_rule(bench: Bench) -> None:
    job = await bench.decided({"type": "reject", "message": "No."})
    outcome = await (await bench.executor(job, FREELY)).execute(call_of(job))
    assert "A reviewer rejected this call. refund did not run. Reason: No." in text_of(outcome)
    assert bench.till.paid == []
    assert await bench.sql("SELECT 1 FROM signoff.effects") == []


async def test_a_call_whose_review_is_open_never_runs_by_a_rule(bench: Bench) -> None:
    job = await bench.decided()
    outcome = await (await bench.executor(job, FREELY)).execute(call_of(job))
    assert isinstance(outcome, Pending)
    assert (outcome.pause["kind"], outcome.pause["again"]) == ("review", {})
    assert bench.till.paid == []
    assert await bench.sql("SELECT 1 FROM signoff.effects") == []


async def test_what_a_call_was_amended_to_never_runs_by_a_rule(bench: Bench) -> None:
    job = await bench.decided()
    amended = operation_id(job.thread_id, MESSAGE, 0, 1)
    await bench.sql(
        "INSERT INTO signoff.revisions (item_id, revision, proposed_by, operation_id, edits, tool, args, digest,"
        " description, rule, reason, policy_digest, allowed_decisions, reviewers)"
        " SELECT id, 2, 'rita', %s, 1, tool, args, digest, '', '', '', '', '{}', '{}' FROM signoff.items",
        amended,
    )
    outcome = await (await bench.executor(job, FREELY)).execute({**call_of(job), "operation_id": amended, "edits": 1})
    assert "There is no decision for this call" in text_of(outcome)
    assert bench.till.paid == []


async def test_a_newer_decision_about_another_call_leaves_an_effect_alone(bench: Bench) -> None:
    job = await bench.decided({"type": "approve"})
    async with bench.store.begin() as tx:
        (review,) = await tx.reviews.of_job(job.id)
    (item,) = review.items
    assert item.decision is not None
    newer = replace(item.decision, id=uuid4(), digest="another")
    with pytest.raises(DigestMismatch):
        async with bench.store.begin() as tx:
            await tx.effects.plan(job, [item], [newer])
    assert (await bench.effect())["decision_id"] == item.decision.id


async def test_a_call_that_was_never_an_item_runs_by_a_rule_which_is_kept(bench: Bench) -> None:
    job = await bench.fresh()
    assert text_of(await (await bench.executor(job, FREELY)).execute(call_of(job))) == "paid"
    kept = await bench.effect()
    assert (kept["rule"], kept["policy_digest"], kept["decision_id"]) == ("all of it", Policy(FREELY).digest, None)
    assert kept["status"] == EffectStatus.succeeded


@pytest.mark.parametrize("rules", [[deny("refund")], []])
async def test_a_call_that_was_never_an_item_and_is_denied_does_not_run(bench: Bench, rules: list[Rule]) -> None:
    job = await bench.fresh()
    outcome = await (await bench.executor(job, rules)).execute(call_of(job))
    assert "The policy does not allow this call. refund did not run." in text_of(outcome)
    assert bench.till.paid == []


@pytest.mark.parametrize("rules", [FINANCE, UNREADABLE])
async def test_a_call_that_was_never_an_item_and_is_not_allowed_is_asked_about(bench: Bench, rules: list[Rule]) -> None:
    job = await bench.fresh()
    outcome = await (await bench.executor(job, rules)).execute(call_of(job))
    assert isinstance(outcome, Pending)
    assert outcome.pause["operations"] == [call_of(job)["operation_id"]]
    assert outcome.pause["again"]["reviewers"] == ["finance"]
    assert outcome.pause["again"]["decisions"] == ["approve", "reject"]
    assert bench.till.paid == []
    assert await bench.sql("SELECT 1 FROM signoff.effects") == []


async def test_a_tool_that_the_agent_does_not_have_does_not_run(bench: Bench) -> None:
    job = await bench.fresh()
    outcome = await (await bench.executor(job, FREELY)).execute(call_of(job, tool_name="wipe"))
    assert "did not run" in text_of(outcome)
    assert await bench.sql("SELECT 1 FROM signoff.effects") == []


async def test_a_settled_call_is_served_from_the_ledger(bench: Bench) -> None:
    job = await bench.decided({"type": "approve"})
    executor = await bench.executor(job, FINANCE)
    assert text_of(await executor.execute(call_of(job))) == text_of(await executor.execute(call_of(job))) == "paid"
    assert bench.till.paid == [("A-1", 30)]
    assert (await bench.effect())["attempts"] == 1


async def test_nothing_runs_under_an_old_fence(bench: Bench) -> None:
    job = await bench.decided({"type": "approve"})
    executor = await bench.executor(replace(job, fence=job.fence - 1), FINANCE)
    with pytest.raises(LeaseLost):
        await executor.execute(call_of(job))
    assert bench.till.paid == []
    assert (await bench.effect())["status"] == EffectStatus.planned


async def test_nothing_is_sent_once_the_lease_may_be_over(bench: Bench) -> None:
    job = await bench.decided({"type": "approve"})
    outcome = await (await bench.executor(job, FINANCE, lease_seconds=0.0)).execute(call_of(job))
    assert isinstance(outcome, Pending)
    assert outcome.pause["kind"] == "wait"
    assert bench.till.paid == []
    kept = await bench.effect()
    assert (kept["status"], kept["doubt_since"]) == (EffectStatus.retry_wait, None)


async def test_a_doubtful_call_whose_key_has_run_out_is_not_sent_again(bench: Bench) -> None:
    job = await bench.decided({"type": "approve"})
    await bench.sql(
        "UPDATE signoff.effects SET status = 'retry_wait', class = 'keyed', attempts = 1, doubt_since = now(),"
        " first_dispatched_at = now() - interval '2 hours'"
    )
    outcome = await (await bench.executor(job, FINANCE)).execute(call_of(job))
    assert outcome == Pending({"kind": "hold", "operation_id": call_of(job)["operation_id"]})
    assert bench.till.paid == []
    assert (await bench.effect())["status"] == EffectStatus.in_doubt
