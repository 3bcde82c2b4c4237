"""Effects that run by themselves: replayed after their job was told, or has ended. History stays as it was."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from signoff.domain.effects import (
    Effect,
    EffectStatus,
    Outcome,
    Step,
    after_attempt,
    after_doubt,
    before_repeat,
    is_due,
)
from signoff.infra.postgres.effects_examined import Examined
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.allowing import Allowing
from signoff.workers.approving import Fine, ReviewAgain, Revoked
from signoff.workers.authoring import Agent
from signoff.workers.carrying import Answer, carry_out
from signoff.workers.declaring import terms_of
from signoff.workers.executor import current
from signoff.workers.guarding import Guard, Stop, uncancel
from signoff.workers.preparing import Sent
from signoff.workers.recording import record_for_certain, take_step, take_steps
from signoff.workers.serving import Served
from signoff.workers.shielding import to_the_end

SENDABLE = (EffectStatus.planned, EffectStatus.retry_wait, EffectStatus.in_doubt)


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
        self._agents = agents
        self._environment = environment
        self._worker = worker
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
        """Sends the effect if it is due and may still leave. A second message for it finds nothing to do."""
        task = asyncio.current_task()
        assert task is not None
        seconds = self._lease.total_seconds()
        guard = Guard(task, claimed_at=time.monotonic(), lease_seconds=seconds)
        self._active.add(guard)
        try:
            sent = None if self._draining else await to_the_end(self._prepare(operation_id))
            if sent is not None:
                guard.stop_after(seconds * 0.9, Stop.late)
                await self._record(sent, await self._carry_out(sent, guard))
        finally:
            guard.end()
            self._active.discard(guard)

    async def _carry_out(self, sent: Sent, guard: Guard) -> Answer:
        try:
            return await carry_out(sent.tool, sent.terms, current(sent.effect), "", sent.effect.args)
        except asyncio.CancelledError:
            if guard.reason is None:
                raise
            uncancel()
            return Answer(Outcome.unknown, f"no answer yet, and the worker gave up: {guard.reason}", None)
        finally:
            guard.end()

    async def _prepare(self, operation_id: str) -> Sent | None:
        async with self._store.begin() as tx:
            job_id = await tx.effects.job_of(operation_id)
            job = await tx.jobs.lock(job_id) if job_id else None
            examined = await tx.effects.examine(operation_id) if job else None
            if job is None or examined is None or not examined.alone or job.agent not in self._agents:
                return None
            agent = self._agents[job.agent].agent
            if not agent.has_policy(await tx.agents.policy_digest(job.agent)):
                # A worker with the newer policy is offered it too.
                return None
            if examined.effect.status not in SENDABLE or not is_due(examined.effect, examined.now):
                return None
            return await self._decide(tx, Allowing(self._agents[job.agent].agent, job, self._environment), examined)

    async def _decide(self, tx: PostgresTransaction, allowing: Allowing, examined: Examined) -> Sent | None:
        agent, effect = allowing.agent, examined.effect
        answer = await allowing.answer(tx, examined, None)
        if effect.tool in agent.state_fields:
            answer = Revoked("its tool is given state of its run, which is over")
        if effect.status is EffectStatus.in_doubt:
            step = await _way_out(tx, agent, examined) if isinstance(answer, Fine) else None
            if step is None:
                await tx.effects.leave_to_operator(effect.operation_id)
                return None
            effect = await take_step(tx, effect, step, self._worker)
        elif not isinstance(answer, Fine):
            await self._withdraw(tx, effect, answer)
            return None
        terms = terms_of(agent.tools_by_name[effect.tool])
        if step := before_repeat(effect, terms, now=examined.now):
            await take_step(tx, effect, step, self._worker)
            return None
        return await self._dispatch(tx, agent, effect, examined.now + self._lease)

    async def _dispatch(self, tx: PostgresTransaction, agent: Agent, effect: Effect, lease_until: datetime) -> Sent:
        tool = agent.tools_by_name[effect.tool]
        terms = terms_of(tool)
        # Its fence is its own and never a job's: a job's fences are positive.
        fence = -(effect.attempts + 1)
        sent = await tx.effects.dispatch(effect, terms, fence=fence, worker=self._worker, lease_until=lease_until)
        return Sent(sent, tool, terms)

    async def _withdraw(self, tx: PostgresTransaction, effect: Effect, answer: Revoked | ReviewAgain) -> None:
        doubted = effect.doubt_since is not None
        to = EffectStatus.in_doubt if doubted else EffectStatus.revoked
        # No run is left that could be parked for a review.
        asks = isinstance(answer, ReviewAgain)
        reason = f"{answer.reason}; its run is over, so it takes a new job to ask for it" if asks else answer.reason
        await take_step(tx, effect, Step(to, doubt=doubted, reason=reason), self._worker)

    async def _record(self, sent: Sent, answer: Answer) -> None:
        async def once() -> Effect:
            async with self._store.begin() as tx:
                await tx.jobs.lock(sent.effect.job_id)
                now = await tx.now()
                steps = after_attempt(sent.effect, sent.terms, answer.outcome, now=now, jitter=self._jitter)
                return await take_steps(tx, sent.effect, steps, answer, self._worker)

        await record_for_certain(self._store, sent.effect, answer, self._worker, once)


async def _way_out(tx: PostgresTransaction, agent: Agent, examined: Examined) -> Step | None:
    """Out of the doubt that a lost worker left. What was answered has had its judgement."""
    if not await tx.effects.is_unanswered(examined.effect):
        return None
    return after_doubt(examined.effect, terms_of(agent.tools_by_name[examined.effect.tool]), now=examined.now)
