"""The executor: the one place from which a run's outside effects leave.

It trusts neither the graph nor a stored verdict: in the transaction that marks the dispatch it looks for itself
(`preparing`). The mark is committed before the first byte leaves.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from signoff.domain.effects import SUCCESS, Effect, Outcome
from signoff.domain.jobs import Job
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.jobs import Fenced
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.allowing import Allowing
from signoff.workers.answered import Answered
from signoff.workers.answering import STOPPED_BEFORE, STOPPED_DURING, call_tool, current, record_answer
from signoff.workers.authoring import Agent
from signoff.workers.calls import Call
from signoff.workers.carrying import Answer
from signoff.workers.faults import Faults, Point
from signoff.workers.graph import Pending, Told
from signoff.workers.guarding import Guard, Stop
from signoff.workers.observing import observed_attempt
from signoff.workers.prechecking import Checked, Prechecks, run_precheck
from signoff.workers.preparing import Prepared, Preparing, Sent, outcome_for
from signoff.workers.probing import Asks, ask_provider, settle
from signoff.workers.recording import record_for_certain
from signoff.workers.shielding import to_the_end
from signoff.workers.stepping import take_step

MOST_QUESTIONS = 10
LATE_ANSWER_SECONDS = 20.0


class PolicyOutdated(Exception):
    """A newer worker has registered another policy for the agent: this one may no longer say what is allowed."""


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


class Executor:
    """Executes the calls of one run, side by side. Never raises for an effect's outcome.

    Raises:
        LeaseLost: nothing more may be written; what came back is kept as evidence.
        JobCancelled, PolicyOutdated, DigestMismatch: the run ends.
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
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

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
            # Two nodes may name one operation: the second is served what became of the first.
            async with self._one_at_a_time[call["operation_id"]]:
                return await self._execute(call)
        finally:
            self._under_way.discard(task)

    async def _execute(self, call: Call) -> Told | Pending:
        prepared = await self._ask_first(call)
        if not isinstance(prepared, Sent):
            return prepared
        with observed_attempt(prepared.effect) as seen:
            await self._faults.reach(Point.after_dispatch)
            answer = await self._carry_out(call, prepared)
            seen.add(outcome=answer.outcome)
            await self._faults.reach(Point.after_answer)
            await self._faults.reach(Point.before_record)
            outcome = await to_the_end(self._record(call, prepared, answer))
            await self._faults.reach(Point.after_record)
        return outcome

    # --- before the first byte leaves ---------------------------------------------------------------------

    async def _ask_first(self, call: Call) -> Sent | Told | Pending:
        """Prepares the call; asks whom the tool wants to be asked before it is sent, again."""
        checked: Checked | None = None
        for _ in range(MOST_QUESTIONS):
            prepared = await self._prepare_to_the_end(call, checked)
            if isinstance(prepared, Asks):
                await self._ask_provider(call, prepared)
            elif isinstance(prepared, Prechecks):
                args = _all_args(call, prepared.effect)
                checked = await run_precheck(prepared, current(prepared.effect), args)
            else:
                return prepared
        raise RuntimeError(f"the effect {call['operation_id']} is asked about, and never settled")

    async def _ask_provider(self, call: Call, asks: Asks) -> None:
        finding = await ask_provider(asks, current(asks.effect), _all_args(call, asks.effect))

        async def once() -> None:
            async with self._store.begin() as tx:
                await tx.jobs.fence(self._run.job)
                await settle(tx, asks, finding, self._run.worker)

        await to_the_end(once())

    async def _prepare_to_the_end(self, call: Call, checked: Checked | None) -> Prepared:
        task = asyncio.ensure_future(self._prepare(call, checked))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await to_the_end(self._take_back(call, task))
            raise

    async def _take_back(self, call: Call, preparing: asyncio.Task[Prepared]) -> None:
        prepared = await preparing
        if isinstance(prepared, Sent):
            # Marked, and for certain not sent.
            await self._record(call, prepared, STOPPED_BEFORE)

    async def _prepare(self, call: Call, checked: Checked | None) -> Prepared:
        await self._faults.reach(Point.before_dispatch)
        await self._faults.reach(Point.before_flush)
        async with self._saver.flushing() as flush, self._store.begin() as tx:
            fenced = await tx.jobs.fence(self._run.job)
            await flush.write(tx.conn, parked=False)
            await self._run.answered.mark(tx)
            if fenced.job.cancel_requested:
                raise JobCancelled
            if not self._agent.has_policy(fenced.policy_digest):
                raise PolicyOutdated
            allowing = Allowing(self._agent, fenced.job, self._environment)
            worker, fence, holds_back = self._run.worker, self._run.fence, fenced.holds_back
            preparing = Preparing(allowing, worker, fence, holds_back=holds_back, checked=checked)
            prepared = await preparing.prepare(tx, call, fenced.now)
        self._run.answered.committed()
        return prepared

    # --- the tool itself, and after it came back -----------------------------------------------------------

    async def _carry_out(self, call: Call, sent: Sent) -> Answer:
        if not self._run.guard.surely_holds():
            return STOPPED_BEFORE
        work = asyncio.ensure_future(
            call_tool(
                self._store, sent, call["tool_call_id"], _all_args(call, sent.effect), self._run.worker, self._lock_job
            )
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await to_the_end(self._record_last_word(call, sent, work))
            raise

    async def _lock_job(self, tx: PostgresTransaction) -> Fenced:
        return await tx.jobs.fence(self._run.job)

    async def _record_last_word(self, call: Call, sent: Sent, work: asyncio.Task[Answer]) -> None:
        await self._record(call, sent, await self._last_word(work))

    async def _last_word(self, work: asyncio.Task[Answer]) -> Answer:
        """Of a call that was under way when the run was stopped, or failed at a sibling: its answer if it may be
        waited for. Otherwise nobody knows whether it happened."""
        cut_off = asyncio.ensure_future(self._run.guard.cut_off.wait())
        await asyncio.wait({work, cut_off}, return_when=asyncio.FIRST_COMPLETED)
        cut_off.cancel()
        if self._run.guard.reason is Stop.lost:
            # It can't be recorded any more, but what it says is worth keeping: others may be in doubt about it.
            await asyncio.wait({work}, timeout=LATE_ANSWER_SECONDS)
        if work.done() and not work.cancelled():
            return work.result()
        work.cancel()
        return STOPPED_DURING

    async def _record(self, call: Call, sent: Sent, answer: Answer) -> Told | Pending:
        async def once() -> Effect:
            if answer.recorded is not None:
                return answer.recorded
            if answer.outcome is Outcome.succeeded and answer.aside is None and not sent.failing:
                return await self._record_success(sent, answer)
            async with self._store.begin() as tx:
                now = (await self._lock_job(tx)).now
                return await record_answer(tx, sent, answer, self._run.worker, now=now, jitter=self._jitter)

        after = await record_for_certain(self._store, sent.effect, sent.terms, answer, self._run.worker, once)
        return outcome_for(call, after, sent.terms)

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


def _all_args(call: Call, effect: Effect) -> dict[str, Any]:
    """The arguments that were allowed, and what the tool is given beside them. The model can't forge the latter."""
    return {**effect.args, **call.get("given", {})}
