"""The last look before an effect leaves that runs by itself: what its job's run would look at, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from signoff.domain.effects import (
    Effect,
    EffectClass,
    EffectStatus,
    Step,
    after_doubt,
    as_sent,
    before_repeat,
    has_budget,
    is_due,
    used_up,
)
from signoff.domain.holding import Held
from signoff.infra.postgres.effects_examined import Examined
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers.allowing import Allowing
from signoff.workers.approving import Fine, ReviewAgain, Revoked
from signoff.workers.authoring import Agent
from signoff.workers.declaring import declared, terms_of
from signoff.workers.holding_back import held_back
from signoff.workers.prechecking import Checked, Prechecks
from signoff.workers.preparing import Sent, is_whole
from signoff.workers.probing import Asks
from signoff.workers.serving import Served
from signoff.workers.stepping import take_step

SENDABLE = (EffectStatus.planned, EffectStatus.retry_wait, EffectStatus.in_doubt)


class LonePreparing:
    """Prepares effects that run by themselves, for one worker."""

    def __init__(self, agents: Mapping[str, Served], environment: str, worker: str, lease: timedelta) -> None:
        self._agents = agents
        self._environment = environment
        self._worker = worker
        self._lease = lease

    async def prepare(
        self, tx: PostgresTransaction, operation_id: str, checked: Checked | None
    ) -> Sent | Asks | Prechecks | None:
        """Marks the dispatch, or says what is to be asked first; None if there is nothing to do now."""
        job_id = await tx.effects.job_of(operation_id)
        job = await tx.jobs.lock(job_id) if job_id else None
        examined = await tx.effects.examine(operation_id) if job else None
        if job is None or examined is None or job.agent not in self._agents:
            return None
        agent = self._agents[job.agent].agent
        if asks := await self._asks(tx, agent, examined):
            return asks
        if not examined.alone or not agent.has_policy(await tx.agents.policy_digest(job.agent)):
            # A worker with the newer policy is offered it too.
            return None
        if examined.effect.status not in SENDABLE or not is_due(examined.effect, examined.now):
            return None
        return await self._decide(tx, Allowing(agent, job, self._environment), examined, checked)

    async def _asks(self, tx: PostgresTransaction, agent: Agent, examined: Examined) -> Asks | None:
        """What to ask the provider with, if it is time to ask it."""
        effect = examined.effect
        tool = agent.tools_by_name.get(effect.tool)
        wanted = examined.probe_at is not None and examined.probe_at <= examined.now
        by_itself = examined.alone and not examined.awaits_operator and is_due(effect, examined.now)
        if effect.status is not EffectStatus.in_doubt or not (wanted or by_itself):
            return None
        if tool is None or as_sent(terms_of(tool), examined.effect_class).effect_class is not EffectClass.queryable:
            if wanted:
                await tx.effects.leave_to_operator(effect.operation_id)
            return None
        return Asks(effect, tool, terms_of(tool), examined.now)

    async def _decide(
        self, tx: PostgresTransaction, allowing: Allowing, examined: Examined, checked: Checked | None
    ) -> Sent | Prechecks | None:
        agent, effect = allowing.agent, examined.effect
        answer = await allowing.answer(tx, examined, None)
        if not is_whole(effect):
            answer = Revoked("its arguments are not those that were allowed")
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
        return await self._send(tx, agent, effect, examined, checked)

    async def _send(
        self, tx: PostgresTransaction, agent: Agent, effect: Effect, examined: Examined, checked: Checked | None
    ) -> Sent | Prechecks | None:
        tool = agent.tools_by_name[effect.tool]
        says = declared(tool)
        if step := before_repeat(effect, as_sent(says.terms, examined.effect_class), now=examined.now):
            await take_step(tx, effect, step, self._worker)
            return None
        lapsed = effect.status is EffectStatus.retry_wait and examined.effect_class is EffectClass.transactional
        lapsed = lapsed and await tx.effects.is_unanswered(effect)
        if lapsed and not has_budget(effect, says.terms, examined.now):
            # What a lost worker has rolled back, again and again.
            await take_step(
                tx, effect, Step(EffectStatus.dead, doubt=False, reason=used_up(effect, says.terms)), self._worker
            )
            return None
        if says.precheck is not None and checked is None and effect.doubt_since is None:
            return Prechecks(effect, says.precheck)
        if checked is not None and checked.changed is not None and not examined.is_known_change(checked.changed):
            await self._withdraw(tx, effect, Revoked(f"something has changed: {checked.changed}"))
            return None
        # Its fence is its own and never a job's: a job's fences are positive.
        fence, lease_until = -(effect.attempts + 1), examined.now + self._lease
        passed = await held_back(tx, effect, says.terms, agent.name, examined.now)
        if isinstance(passed, Held):
            await tx.effects.wait(effect, passed.until, passed.waits_for)
            return None
        sent = await tx.effects.dispatch(effect, says.terms, fence=fence, worker=self._worker, lease_until=lease_until)
        return Sent(sent, tool, says.terms, agent.name, passed.failing)

    async def _withdraw(self, tx: PostgresTransaction, effect: Effect, answer: Revoked | ReviewAgain) -> None:
        doubted = effect.doubt_since is not None
        to = EffectStatus.in_doubt if doubted else EffectStatus.revoked
        # No run is left that could be parked for a review.
        asks = isinstance(answer, ReviewAgain)
        reason = f"{answer.reason}; its run is over, so it takes a new job to ask for it" if asks else answer.reason
        await take_step(tx, effect, Step(to, doubt=doubted, reason=reason), self._worker)


async def _way_out(tx: PostgresTransaction, agent: Agent, examined: Examined) -> Step | None:
    """Out of the doubt that a lost worker left. What was answered has had its judgement."""
    if examined.awaits_operator or not await tx.effects.is_unanswered(examined.effect):
        return None
    terms = as_sent(terms_of(agent.tools_by_name[examined.effect.tool]), examined.effect_class)
    return after_doubt(examined.effect, terms, now=examined.now)
