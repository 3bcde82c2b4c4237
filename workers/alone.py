"""Effects that run by themselves: replayed after their job was told, or has ended; and asking about what is in doubt.

History stays as it was.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import timedelta

from signoff.domain.effects import Effect, Outcome
from signoff.infra.log_context import logged_with
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.answering import STOPPED_BEFORE, call_tool, current, record_answer
from signoff.workers.carrying import Answer
from signoff.workers.evidence import wake
from signoff.workers.guarding import Guard, Stop, uncancel
from signoff.workers.lone_preparing import LonePreparing
from signoff.workers.observing import observed_attempt
from signoff.workers.prechecking import Checked, Prechecks, run_precheck
from signoff.workers.preparing import Sent
from signoff.workers.probing import Asks, ask_provider, settle
from signoff.workers.recording import record_for_certain
from signoff.workers.serving import Served
from signoff.workers.shielding import to_the_end


class LoneRunner:
    """Sends one effect at a time, under a lease on the effect itself; the job is not touched."""

    def __init__(
        self,
        store: PostgresStore,
        agents: Mapping[str, Served],
        environment: str,
        worker: str,
        *,
        lease: timedelta,
        drain_seconds: float,
    ) -> None:
        self._store = store
        self._worker = worker
        self._preparing = LonePreparing(agents, environment, worker, lease)
        self._lease = lease
        self._drain_seconds = drain_seconds
        self._jitter = random.Random()
        self._active: set[Guard] = set()
        self._draining = False

    def drain(self) -> None:
        """Sends nothing more; a call that has not come back after `drain_seconds` is left. Safe from any thread."""
        if self._draining:
            return
        self._draining = True
        for guard in list(self._active):
            guard.stop_after(self._drain_seconds, Stop.drained)

    async def run(self, operation_id: str) -> None:
        """Sends the effect if it is due and may still leave, or asks its provider about it. A second message for it
        finds nothing to do."""
        task = asyncio.current_task()
        assert task is not None
        seconds = self._lease.total_seconds()
        guard = Guard(task, claimed_at=time.monotonic(), lease_seconds=seconds)
        self._active.add(guard)
        try:
            sent = None if self._draining else await self._ask_first(operation_id)
            if sent is not None:
                guard.stop_after(seconds * 0.9, Stop.late)
                await self._carry_out_and_record(sent, guard)
        finally:
            guard.end()
            self._active.discard(guard)

    async def _ask_first(self, operation_id: str) -> Sent | None:
        prepared = await to_the_end(self._prepare(operation_id, None))
        if isinstance(prepared, Asks):
            await self._ask(prepared)
            return None
        if not isinstance(prepared, Prechecks):
            return prepared
        effect = prepared.effect
        sent = await to_the_end(self._prepare(operation_id, await run_precheck(prepared, current(effect), effect.args)))
        return sent if isinstance(sent, Sent) else None

    async def _prepare(self, operation_id: str, checked: Checked | None) -> Sent | Asks | Prechecks | None:
        async with self._store.begin() as tx:
            return await self._preparing.prepare(tx, operation_id, checked)

    async def _ask(self, asks: Asks) -> None:
        finding = await ask_provider(asks, current(asks.effect), asks.effect.args)

        async def once() -> None:
            async with self._store.begin() as tx:
                job = await tx.jobs.lock(asks.effect.job_id)
                after = await settle(tx, asks, finding, self._worker)
                if job is not None and after is not None and after.status is not asks.effect.status:
                    await wake(tx, job, self._worker)

        await to_the_end(once())

    async def _carry_out_and_record(self, sent: Sent, guard: Guard) -> None:
        effect = sent.effect
        ids = {"job_id": str(effect.job_id), "thread_id": effect.thread_id, "worker": self._worker}
        with logged_with(**ids), observed_attempt(effect) as seen:
            # Stood still for its lease: somebody else may be sending it by now.
            answer = await self._carry_out(sent, guard) if guard.surely_holds() else STOPPED_BEFORE
            seen.add(outcome=answer.outcome)
            await self._record(sent, answer)

    async def _carry_out(self, sent: Sent, guard: Guard) -> Answer:
        try:
            return await self._call_tool(sent)
        except asyncio.CancelledError:
            if guard.reason is None:
                raise
            uncancel()
            return Answer(
                Outcome.unknown, f"no answer yet, and the worker gave up: {guard.reason}", None, given_up=True
            )
        finally:
            guard.end()

    async def _call_tool(self, sent: Sent) -> Answer:
        async def lock_job(tx: PostgresTransaction) -> None:
            await tx.jobs.lock(sent.effect.job_id)

        return await call_tool(self._store, sent, "", sent.effect.args, self._worker, lock_job)

    async def _record(self, sent: Sent, answer: Answer) -> None:
        async def once() -> Effect:
            if answer.recorded is not None:
                return answer.recorded
            async with self._store.begin() as tx:
                await tx.jobs.lock(sent.effect.job_id)
                now = await tx.now()
                return await record_answer(tx, sent, answer, self._worker, now=now, jitter=self._jitter)

        await record_for_certain(self._store, sent.effect, sent.terms, answer, self._worker, once)
