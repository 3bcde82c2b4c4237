"""The executor: the one place from which a run's outside effects leave.

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

from langchain_core.tools import BaseTool

from signoff.domain.canonical import call_digest
from signoff.domain.effects import (
    ENDED,
    HELD,
    SUCCESS,
    Effect,
    EffectStatus,
    Outcome,
    Step,
    Terms,
    after_attempt,
    after_doubt,
    after_lapse,
    before_repeat,
    is_due,
)
from signoff.domain.errors import DigestMismatch
from signoff.domain.jobs import Job
from signoff.domain.policy import Verdict
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.effects import Examined
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers import refusals, results
from signoff.workers.answered import Answered
from signoff.workers.approving import why_not_now
from signoff.workers.authoring import Agent, CurrentEffect, terms_of
from signoff.workers.calls import Call
from signoff.workers.carrying import Answer, carry_out
from signoff.workers.faults import Faults, Point
from signoff.workers.graph import Pending, Told
from signoff.workers.guarding import Guard
from signoff.workers.recording import record_for_certain, take_step, take_steps
from signoff.workers.shielding import to_the_end

STOPPED_BEFORE = Answer(Outcome.not_applied, "the run was stopped before the call was made", None)
STOPPED_DURING = Answer(Outcome.unknown, "the run was stopped during the call", None)
# While the same call is under way by itself.
LOOK_AGAIN = timedelta(seconds=5)


class JobCancelled(Exception):
    """The job's cancellation was requested: nothing more is dispatched."""


@dataclass(frozen=True, slots=True)
class Run:
    """The lease that a run works under."""

    job: Job
    lineage_root: str
    worker: str
    guard: Guard
    answered: Answered

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
        self._under_way: set[asyncio.Task[Any]] = set()

    async def ended(self) -> None:
        """Returns once no call of the run is under way. LangGraph leaves some behind if it is cancelled twice."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def execute(self, call: Call) -> Told | Pending:
        """Serves the call from the ledger, or carries it out, or says what it waits for."""
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            return await self._execute(call)
        finally:
            self._under_way.discard(task)

    async def _execute(self, call: Call) -> Told | Pending:
        prepared = await self._prepare_to_the_end(call)
        if not isinstance(prepared, Sent):
            return prepared
        await self._faults.reach(Point.after_dispatch)
        answer = await self._carry_out(call, prepared)
        await self._faults.reach(Point.after_answer)
        await self._faults.reach(Point.before_record)
        outcome = await to_the_end(self._record(call, prepared, answer))
        await self._faults.reach(Point.after_record)
        return outcome

    # --- before the first byte leaves ---------------------------------------------------------------------

    async def _prepare_to_the_end(self, call: Call) -> Sent | Told | Pending:
        task = asyncio.ensure_future(self._prepare(call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await to_the_end(self._take_back(call, task))
            raise

    async def _take_back(self, call: Call, preparing: asyncio.Task[Sent | Told | Pending]) -> None:
        prepared = await preparing
        if isinstance(prepared, Sent):
            # Marked, and for certain not sent.
            await self._record(call, prepared, STOPPED_BEFORE)

    async def _prepare(self, call: Call) -> Sent | Told | Pending:
        await self._faults.reach(Point.before_dispatch)
        await self._faults.reach(Point.before_flush)
        async with self._saver.flushing() as flush, self._store.begin() as tx:
            job = (await tx.jobs.fence(self._run.job)).job
            await flush.write(tx.conn, parked=False)
            await self._run.answered.mark(tx)
            if job.cancel_requested:
                raise JobCancelled
            prepared = await self._decide(tx, job, call)
        self._run.answered.committed()
        return prepared

    async def _decide(self, tx: PostgresTransaction, job: Job, call: Call) -> Sent | Told | Pending:
        examined = await tx.effects.examine(call["operation_id"])
        if examined is None:
            return await self._first_time(tx, job, call)
        _require_same(call, examined.effect)
        if examined.effect.status in ENDED:
            return Told(results.from_ledger(call, examined.effect))
        if examined.lease_until is not None and examined.lease_until > examined.now:
            return _waiting(examined.effect, min(examined.lease_until, examined.now + LOOK_AGAIN))
        examined = await self._out_of_doubt(tx, examined)
        effect = examined.effect
        if effect.status in HELD or not is_due(effect, examined.now):
            return pending(effect)
        if reason := why_not_now(self._agent, job.facts(), self._environment, examined):
            return await self._revoke(tx, call, effect, reason)
        if step := before_repeat(effect, terms_of(self._agent.tools_by_name[effect.tool]), now=examined.now):
            return pending(await take_step(tx, effect, step, self._run.worker))
        return await self._dispatch(tx, effect)

    async def _first_time(self, tx: PostgresTransaction, job: Job, call: Call) -> Sent | Told:
        """No decision planned it: only a rule that allows it now, of a call that nobody was ever asked about."""
        args, tool = call["args"] or {}, call["tool"]
        judgement = self._agent.loaded_policy.judge(tool, args, job=job.facts(), environment=self._environment)
        if judgement.verdict is not Verdict.allow or tool not in self._agent.tools_by_name:
            return Told(results.refusal(call, refusals.denied(tool, judgement.reason)))
        effect = _planned(job, call, args)
        _require_same(call, effect)
        terms = terms_of(self._agent.tools_by_name[tool])
        if not await tx.effects.allow(job, effect, terms.effect_class, judgement.rule, judgement.policy_digest):
            return Told(results.refusal(call, refusals.undecided(tool)))
        return await self._dispatch(tx, effect)

    async def _out_of_doubt(self, tx: PostgresTransaction, examined: Examined) -> Examined:
        """Moves what a lost worker left dispatched into doubt, and out of it again where the tool's class allows."""
        effect = examined.effect
        if effect.status is EffectStatus.dispatched:
            effect = await take_step(tx, effect, after_lapse(), self._run.worker)
        if effect.status is EffectStatus.in_doubt and effect.tool in self._agent.tools_by_name:
            step = after_doubt(effect, terms_of(self._agent.tools_by_name[effect.tool]), now=examined.now)
            effect = await take_step(tx, effect, step, self._run.worker) if step else effect
        return replace(examined, effect=effect)

    async def _revoke(self, tx: PostgresTransaction, call: Call, effect: Effect, reason: str) -> Told | Pending:
        # If it was ever sent, nobody may send it again and nobody knows about the first try: that stays doubt.
        doubted = effect.doubt_since is not None
        to = EffectStatus.in_doubt if doubted else EffectStatus.revoked
        after = await take_step(tx, effect, Step(to, doubt=doubted, reason=reason), self._run.worker)
        return pending(after) if doubted else Told(results.from_ledger(call, after))

    async def _dispatch(self, tx: PostgresTransaction, effect: Effect) -> Sent:
        tool = self._agent.tools_by_name[effect.tool]
        terms = terms_of(tool)
        sent = await tx.effects.dispatch(effect, terms, fence=self._run.fence, worker=self._run.worker)
        return Sent(sent, tool, terms)

    # --- the tool itself, and after it came back -----------------------------------------------------------

    async def _carry_out(self, call: Call, sent: Sent) -> Answer:
        if not self._run.guard.surely_holds():
            return STOPPED_BEFORE
        work = asyncio.ensure_future(
            carry_out(sent.tool, sent.terms, current(sent.effect), call["tool_call_id"], sent.effect.args)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await to_the_end(self._record_last_word(call, sent, work))
            raise

    async def _record_last_word(self, call: Call, sent: Sent, work: asyncio.Task[Answer]) -> None:
        await self._record(call, sent, await self._last_word(work))

    async def _last_word(self, work: asyncio.Task[Answer]) -> Answer:
        """Of a call that was under way when the run was stopped, or failed at a sibling: its answer if it may be
        waited for. Otherwise nobody knows whether it happened."""
        cut_off = asyncio.ensure_future(self._run.guard.cut_off.wait())
        await asyncio.wait({work, cut_off}, return_when=asyncio.FIRST_COMPLETED)
        cut_off.cancel()
        if work.done() and not work.cancelled():
            return work.result()
        work.cancel()
        return STOPPED_DURING

    async def _record(self, call: Call, sent: Sent, answer: Answer) -> Told | Pending:
        async def once() -> Effect:
            if answer.outcome is Outcome.succeeded:
                return await self._record_success(sent, answer)
            async with self._store.begin() as tx:
                now = (await tx.jobs.fence(self._run.job)).now
                steps = after_attempt(sent.effect, sent.terms, answer.outcome, now=now, jitter=self._jitter)
                return await take_steps(tx, sent.effect, steps, answer, self._run.worker)

        after = await record_for_certain(self._store, sent.effect, answer, self._run.worker, once)
        return Told(results.from_ledger(call, after)) if after.status in ENDED else pending(after)

    async def _record_success(self, sent: Sent, answer: Answer) -> Effect:
        """The commonest record by far, and one step: a statement that is a fenced transaction of its own."""
        async with self._store.each_alone() as tx:
            return await take_step(
                tx,
                sent.effect,
                SUCCESS,
                self._run.worker,
                answer=answer,
                outcome=answer.outcome,
                job_fence=self._run.fence,
            )


def pending(effect: Effect) -> Pending:
    """What a call waits for whose effect is not settled."""
    if effect.status is EffectStatus.retry_wait and effect.retry_at is not None:
        return _waiting(effect, effect.retry_at)
    return Pending({"kind": "hold", "operation_id": effect.operation_id})


def _waiting(effect: Effect, until: datetime) -> Pending:
    return Pending({"kind": "wait", "operation_id": effect.operation_id, "retry_at": until.isoformat()})


def current(effect: Effect) -> CurrentEffect:
    return CurrentEffect(effect.operation_id, effect.idempotency_key, effect.attempts)


def _require_same(call: Call, effect: Effect) -> None:
    if not (effect.digest == call["digest"] == call_digest(call["tool"], call["args"] or {})):
        raise DigestMismatch(f"the operation {effect.operation_id} stands for another call", tool=call["tool"])


def _planned(job: Job, call: Call, args: Mapping[str, Any]) -> Effect:
    return Effect(
        operation_id=call["operation_id"],
        generation=0,
        job_id=job.id,
        thread_id=job.thread_id,
        tool=call["tool"],
        args=args,
        digest=call_digest(call["tool"], args),
        status=EffectStatus.planned,
        attempts=0,
    )
