"""The executor: the one place from which an outside effect leaves.

It trusts neither the graph nor a stored verdict. In the transaction that marks the dispatch it looks for itself: a
decision that covers exactly these arguments, by someone who may still decide, young enough; or, for a call that was
never an item of a review, a rule that allows it now. The mark is committed before the first byte leaves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from signoff.domain.authority import may_decide
from signoff.domain.canonical import call_digest
from signoff.domain.effects import (
    ENDED,
    Effect,
    EffectStatus,
    Outcome,
    Step,
    Terms,
    after_attempt,
    after_doubt,
    after_lapse,
    is_due,
)
from signoff.domain.errors import DigestMismatch, LeaseLost, StoreUnavailable
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import Job
from signoff.domain.policy import Verdict
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.effects import Approval, Examined
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers import refusals, results
from signoff.workers.authoring import Agent, CurrentEffect, terms_of
from signoff.workers.calls import Call
from signoff.workers.carrying import Answer, carry_out
from signoff.workers.faults import Faults, Point
from signoff.workers.graph import Pending, Told

RECORD_TRIES = 30
RECORD_PAUSE_SECONDS = 0.5


class JobCancelled(Exception):
    """The job's cancellation was requested: nothing more is dispatched."""


@dataclass(frozen=True, slots=True)
class Run:
    """The lease that a run works under."""

    job: Job
    lineage_root: str
    worker: str

    @property
    def fence(self) -> int:
        return self.job.fence


@dataclass(frozen=True, slots=True)
class Sent:
    """An effect whose dispatch is marked and committed."""

    effect: Effect
    tool: BaseTool
    terms: Terms


class Executor:
    """Executes the calls of one run, side by side. Never raises for an effect's outcome.

    Raises:
        LeaseLost: nothing more may be written; what came back is kept as evidence.
        JobCancelled, DigestMismatch: the run ends.
    """

    def __init__(
        self, store: PostgresStore, saver: RunSaver, agent: Agent, run: Run, environment: str, faults: Faults
    ) -> None:
        self._store = store
        self._saver = saver
        self._agent = agent
        self._run = run
        self._environment = environment
        self._faults = faults
        self._jitter = random.Random()

    async def execute(self, call: Call) -> Told | Pending:
        """Serves the call from the ledger, or carries it out, or says what it waits for."""
        # Shielded: LangGraph cancels siblings when one fails, and a cancelled transaction leaves its outcome unknown.
        prepared = await asyncio.shield(self._prepare(call))
        if not isinstance(prepared, Sent):
            return prepared
        await self._faults.reach(Point.after_dispatch)
        answer = await self._carry_out(call, prepared)
        await self._faults.reach(Point.before_record)
        outcome = await asyncio.shield(self._record(call, prepared, answer))
        await self._faults.reach(Point.after_record)
        return outcome

    # --- before the first byte leaves ---------------------------------------------------------------------

    async def _prepare(self, call: Call) -> Sent | Told | Pending:
        await self._faults.reach(Point.before_dispatch)
        async with self._saver.flushing() as flush, self._store.begin() as tx:
            job = await tx.jobs.fence(self._run.job.id, self._run.fence)
            await flush.write(tx.conn, parked=False)
            if job.cancel_requested:
                raise JobCancelled
            return await self._decide(tx, job, call)

    async def _decide(self, tx: PostgresTransaction, job: Job, call: Call) -> Sent | Told | Pending:
        examined = await tx.effects.examine(call["operation_id"])
        if examined is None:
            return await self._first_time(tx, job, call)
        effect = examined.effect
        if effect.digest != call["digest"] or call_digest(call["tool"], call["args"] or {}) != effect.digest:
            raise DigestMismatch(f"the operation {effect.operation_id} stands for another call", tool=call["tool"])
        if effect.status in ENDED:
            return Told(results.from_ledger(call, effect))
        examined = await self._out_of_doubt(tx, examined)
        effect = examined.effect
        if effect.status in (EffectStatus.in_doubt, EffectStatus.dead):
            return Pending({"kind": "hold", "operation_id": effect.operation_id})
        if not is_due(effect, examined.now):
            assert effect.retry_at is not None
            return Pending({"kind": "wait", "operation_id": effect.operation_id, "retry_at": effect.retry_at.isoformat()})
        if reason := self._no_longer_allowed(call, examined):
            return await self._revoke(tx, call, effect, reason)
        return await self._dispatch(tx, call, effect)

    async def _first_time(self, tx: PostgresTransaction, job: Job, call: Call) -> Sent | Told:
        """No decision planned it: only a rule that allows it now, of a call that nobody was ever asked about."""
        args, tool = call["args"] or {}, call["tool"]
        judgement = self._agent.loaded_policy.judge(tool, args, job=job.facts(), environment=self._environment)
        if judgement.verdict is not Verdict.allow or tool not in self._agent.tools_by_name:
            return Told(results.refusal(call, refusals.denied(tool, judgement.reason)))
        digest = call_digest(tool, args)
        if digest != call["digest"]:
            raise DigestMismatch(f"the call's digest does not fit its arguments: {call['operation_id']}")
        terms = terms_of(self._agent.tools_by_name[tool])
        now = await tx.effects.allow(
            job, call["operation_id"], tool, args, digest, terms.effect_class, judgement.rule, judgement.policy_digest
        )
        if now is None:
            return Told(results.refusal(call, refusals.undecided(tool)))
        return await self._dispatch(tx, call, _planned(job, call, args, digest))

    async def _out_of_doubt(self, tx: PostgresTransaction, examined: Examined) -> Examined:
        """Moves what a lost worker left dispatched into doubt, and out of it again where the tool's class allows."""
        effect = examined.effect
        if effect.status is EffectStatus.dispatched:
            effect = await self._step(tx, effect, after_lapse(effect))
        if effect.status is EffectStatus.in_doubt and effect.tool in self._agent.tools_by_name:
            step = after_doubt(effect, terms_of(self._agent.tools_by_name[effect.tool]), now=examined.now)
            effect = await self._step(tx, effect, step) if step else effect
        return replace(examined, effect=effect)

    async def _step(self, tx: PostgresTransaction, effect: Effect, step: Step) -> Effect:
        if not await tx.effects.move(effect, step, actor=self._run.worker):
            raise LeaseLost(f"the effect {effect.operation_id} moved away from {effect.status}")
        doubt_since = effect.doubt_since or effect.first_dispatched_at if step.doubt else None
        return replace(effect, status=step.to, retry_at=step.retry_at, doubt_since=doubt_since)

    def _no_longer_allowed(self, call: Call, examined: Examined) -> str | None:
        """Why the authority that this effect stands on does not hold now; None if it does."""
        effect = examined.effect
        if effect.tool not in self._agent.tools_by_name:
            return "the agent no longer has this tool"
        judgement = self._agent.loaded_policy.judge(
            effect.tool, effect.args, job=self._run.job.facts(), environment=self._environment
        )
        if judgement.verdict is Verdict.deny:
            return f"the policy now denies it ({judgement.reason})"
        approval = examined.approval
        if approval is None:
            return None if judgement.verdict is Verdict.allow else "the policy now wants a review"
        reviewers = judgement.reviewers if judgement.verdict is Verdict.review else approval.reviewers
        return _flaw(approval, effect, reviewers, examined.now)

    async def _revoke(self, tx: PostgresTransaction, call: Call, effect: Effect, reason: str) -> Told | Pending:
        if effect.doubt_since is not None:
            # Nobody may send it again, and nobody knows about the first try: that stays doubt.
            await self._step(tx, effect, Step(EffectStatus.in_doubt, doubt=True, reason=reason))
            return Pending({"kind": "hold", "operation_id": effect.operation_id})
        await tx.effects.move(
            effect,
            Step(EffectStatus.revoked, doubt=False, reason=reason),
            actor=self._run.worker,
            error=("revoked", reason),
        )
        await tx.events.append(_event(EventType.effect_revoked, self._run.worker, effect, reason=reason))
        return Told(results.refusal(call, refusals.revoked(call["tool"], reason)))

    async def _dispatch(self, tx: PostgresTransaction, call: Call, effect: Effect) -> Sent:
        tool = self._agent.tools_by_name[effect.tool]
        terms = terms_of(tool)
        number, first = await tx.effects.dispatch(
            effect.operation_id,
            effect.digest,
            fence=self._run.fence,
            worker=self._run.worker,
            effect_class=terms.effect_class,
            window_seconds=terms.window.total_seconds() if terms.window else None,
        )
        sent = replace(
            effect,
            status=EffectStatus.dispatched,
            attempts=number,
            fence=self._run.fence,
            first_dispatched_at=first,
            retry_at=None,
        )
        return Sent(sent, tool, terms)

    # --- the tool itself -------------------------------------------------------------------------------------

    async def _carry_out(self, call: Call, sent: Sent) -> Answer:
        current = CurrentEffect(sent.effect.operation_id, sent.effect.idempotency_key, sent.effect.attempts)
        try:
            answer = await carry_out(sent.tool, sent.terms, current, call["tool_call_id"], sent.effect.args)
        except asyncio.CancelledError:
            # The run is stopped in the middle of the call: whether it happened, nobody knows. Say so before going.
            stopped = Answer(Outcome.unknown, "the run was stopped during the call", None)
            await asyncio.shield(self._record(call, sent, stopped))
            raise
        await self._faults.reach(Point.after_answer)
        return answer

    # --- after it came back ------------------------------------------------------------------------------------

    async def _record(self, call: Call, sent: Sent, answer: Answer) -> Told | Pending:
        """Records the outcome under the fence. A database that is away is waited for: the answer is only here."""
        for attempt in range(RECORD_TRIES):
            try:
                return await self._record_once(call, sent, answer)
            except StoreUnavailable:
                if attempt == RECORD_TRIES - 1:
                    raise
                await asyncio.sleep(RECORD_PAUSE_SECONDS)
            except LeaseLost:
                async with self._store.begin() as tx:
                    await tx.effects.keep_evidence(sent.effect, self._run.worker, answer.outcome, answer.message, answer.result)
                raise
        raise AssertionError("unreachable")

    async def _record_once(self, call: Call, sent: Sent, answer: Answer) -> Told | Pending:
        async with self._store.begin() as tx:
            job = await tx.jobs.fence(self._run.job.id, self._run.fence)
            effect = sent.effect
            now = await tx.effects.end_attempt(effect, answer.outcome, answer.message)
            steps = after_attempt(effect, sent.terms, answer.outcome, now=now, jitter=self._jitter)
            after = await record_steps(tx, effect, steps, answer, self._run.worker)
            del job
        return self._told(call, after)

    def _told(self, call: Call, effect: Effect) -> Told | Pending:
        if effect.status in ENDED:
            return Told(results.from_ledger(call, effect))
        if effect.status is EffectStatus.retry_wait and effect.retry_at is not None:
            return Pending({"kind": "wait", "operation_id": effect.operation_id, "retry_at": effect.retry_at.isoformat()})
        return Pending({"kind": "hold", "operation_id": effect.operation_id})


async def record_steps(
    tx: PostgresTransaction, effect: Effect, steps: list[Step], answer: Answer, worker: str
) -> Effect:
    """Takes the steps that follow from an answer, and tells of where they lead.

    Raises:
        LeaseLost: the effect is no longer where this attempt left it.
    """
    for step in steps:
        result = answer.result if step.to is EffectStatus.succeeded else None
        error = None if step.to is EffectStatus.succeeded else (str(answer.outcome), answer.message or "")
        if not await tx.effects.move(effect, step, actor=worker, result=result, error=error):
            raise LeaseLost(f"the effect {effect.operation_id} moved away from {effect.status}")
        result_type, payload = result or (None, None)
        effect = replace(
            effect,
            status=step.to,
            retry_at=step.retry_at,
            result_type=result_type,
            result=payload,
            error_message=answer.message,
        )
    kind = RECORDED.get(effect.status)
    if kind is not None:
        await tx.events.append(_event(kind, worker, effect, message=answer.message))
    return effect


RECORDED: Mapping[EffectStatus, EventType] = {
    EffectStatus.succeeded: EventType.effect_succeeded,
    EffectStatus.failed: EventType.effect_failed,
    EffectStatus.in_doubt: EventType.effect_doubted,
    EffectStatus.dead: EventType.effect_died,
}


def _event(kind: EventType, actor: str, effect: Effect, **facts: Any) -> NewEvent:
    data = {"operation_id": effect.operation_id, "job_id": str(effect.job_id), "tool": effect.tool, **facts}
    return NewEvent(kind, f"effects/{effect.operation_id}", actor, data, effect.job_id)


def _flaw(approval: Approval, effect: Effect, reviewers: tuple[str, ...], now: datetime) -> str | None:
    if approval.digest != effect.digest:
        return "the decision covers other arguments"
    if not may_decide(approval.reviewer, approval.reviewers) or not may_decide(approval.reviewer, reviewers):
        return f"{approval.reviewer.name}, who approved it, may no longer decide this"
    if approval.valid_for_seconds is not None:
        ends = approval.decided_at + timedelta(seconds=approval.valid_for_seconds)
        if now > ends:
            return f"the approval was valid until {ends.isoformat()}"
    return None


def _planned(job: Job, call: Call, args: Mapping[str, Any], digest: str) -> Effect:
    return Effect(
        operation_id=call["operation_id"],
        generation=0,
        job_id=job.id,
        thread_id=job.thread_id,
        tool=call["tool"],
        args=args,
        digest=digest,
        status=EffectStatus.planned,
        attempts=0,
    )
