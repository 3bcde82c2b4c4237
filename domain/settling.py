"""Two people for what the policy calls high-risk: what one has found out changes nothing until another confirms it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, PrincipalKind, Right, require_right
from signoff.domain.effects import Effect
from signoff.domain.errors import (
    EffectNotFound,
    PersonNeeded,
    PolicyInvalid,
    SecondPersonNeeded,
    SettlementNotFound,
    SettlementOpen,
    SettlementOutdated,
)
from signoff.domain.findings import carry_out, lock_effect, move_of
from signoff.domain.jobs import Job
from signoff.domain.operator_acts import Done, OperatorAct, once
from signoff.domain.policy import Policy
from signoff.domain.ports import Hints, Store, Transaction
from signoff.domain.registered import Registered
from signoff.domain.settlements import Settlement, Waiting


async def is_high_risk(tx: Transaction, effect: Effect, job: Job, environment: str) -> bool:
    """True if the policy calls the call so, as it judges it now; and if there is nothing to judge it by."""
    return (await Risks.of(tx, job.agent)).are_high(effect.tool, effect.args, job, environment)


@dataclass(frozen=True, slots=True)
class Risks:
    """What the risk of an agent's calls is judged by. Without a policy that can be read, all are high."""

    policy: Policy | None
    tools: Mapping[str, Any]

    @classmethod
    async def of(cls, tx: Transaction, agent: str) -> Self:
        try:
            return cls(await tx.agents.policy(agent), await tx.agents.tools(agent) or {})
        except PolicyInvalid:
            return cls(None, {})

    def are_high(self, tool: str, args: Mapping[str, Any], job: Job, environment: str) -> bool:
        if self.policy is None:
            return True
        return Registered(job.agent, job.facts(), environment, self.policy, self.tools).judge(tool, args).high_risk


async def propose(tx: Transaction, effect: Effect, act: OperatorAct) -> Mapping[str, Any]:
    """Keeps what one person has found out, until another confirms it.

    Raises: PersonNeeded, SettlementOpen.
    """
    _require_person(act.who)
    known = await tx.settlements.waiting(effect.operation_id)
    if known is not None and known.still_fits(effect):
        raise SettlementOpen(
            f"what {known.proposed_by} has found out waits for a second person: confirm or withdraw it",
            settlement_id=str(known.id),
        )
    if known is not None:
        await tx.settlements.end(known.id, "outdated", act.who.name)
    place = (effect.status, effect.attempts)
    said = act.act.removeprefix("effect.")
    new = Waiting(uuid4(), effect.operation_id, said, act.body, act.digest(), act.reason, *place, act.who.name)
    await tx.settlements.add(new)
    return {"operation_id": effect.operation_id, "status": str(effect.status), "waits_for_second": str(new.id)}


async def confirm_settlement(
    store: Store, hints: Hints, operation_id: str, settlement_id: UUID, settlement: Settlement
) -> Done:
    """Carries out what somebody else has found out, exactly as it was found out.

    Raises: RightMissing, PersonNeeded, SecondPersonNeeded, EffectNotFound, SettlementNotFound, SettlementOutdated.
    """
    who, jobs = settlement.who, list[Job]()
    require_right(who, Right.operate)
    async with store.begin() as tx:

        async def do() -> Mapping[str, Any]:
            _require_person(who)
            effect, job = await lock_effect(tx, operation_id)
            jobs.append(job)
            waiting = await _waiting(tx, operation_id, settlement_id)
            if waiting.proposed_by == who.name:
                raise SecondPersonNeeded(f"{who.name} has found it out, so somebody else has to confirm it")
            return await _confirm(tx, effect, job, waiting, settlement)

        act = settlement.act("effect.confirm", operation_id, await _job_of(tx, operation_id), _named(settlement_id))
        done = await once(tx, act, do)
    for job in jobs:
        hints.offer(job.agent, job.id)
        hints.offer_effect(job.agent, operation_id)
    if done.outcome["ending"] == "outdated":
        raise SettlementOutdated("the effect has moved, or who found it out may no longer settle effects")
    return done


async def withdraw_settlement(store: Store, operation_id: str, settlement_id: UUID, settlement: Settlement) -> Done:
    """Ends a finding that waits for a second person: nothing comes of it.

    Raises: RightMissing, EffectNotFound, SettlementNotFound.
    """
    require_right(settlement.who, Right.operate)
    async with store.begin() as tx:

        async def do() -> Mapping[str, Any]:
            effect, _ = await lock_effect(tx, operation_id)
            await _waiting(tx, operation_id, settlement_id)
            return await _end(tx, effect, settlement_id, "withdrawn", settlement)

        act = settlement.act("effect.withdraw", operation_id, await _job_of(tx, operation_id), _named(settlement_id))
        return await once(tx, act, do)


async def _confirm(
    tx: Transaction, effect: Effect, job: Job, waiting: Waiting, settlement: Settlement
) -> Mapping[str, Any]:
    proposer = await tx.principals.get(waiting.proposed_by)
    may = proposer is not None and not proposer.revoked and Right.operate in proposer.rights
    if not may or not waiting.still_fits(effect):
        return await _end(tx, effect, waiting.id, "outdated", settlement)
    reason = f"{waiting.proposed_by}: {waiting.reason}; {settlement.who.name}: {settlement.reason}"
    after = await carry_out(tx, effect, job, move_of(waiting.body), settlement.who.name, reason)
    return await _end(tx, after, waiting.id, "confirmed", settlement)


async def _end(
    tx: Transaction, effect: Effect, settlement_id: UUID, ending: str, settlement: Settlement
) -> Mapping[str, Any]:
    await tx.settlements.end(settlement_id, ending, settlement.who.name)
    return {"operation_id": effect.operation_id, "status": str(effect.status), "ending": ending}


async def _waiting(tx: Transaction, operation_id: str, settlement_id: UUID) -> Waiting:
    waiting = await tx.settlements.waiting(operation_id)
    if waiting is None or waiting.id != settlement_id:
        raise SettlementNotFound(f"no finding {settlement_id} about the effect waits for a second person")
    return waiting


async def _job_of(tx: Transaction, operation_id: str) -> UUID:
    job_id = await tx.effects.job_of(operation_id)
    if job_id is None:
        raise EffectNotFound(f"there is no effect {operation_id}")
    return job_id


def _named(settlement_id: UUID) -> Mapping[str, Any]:
    return {"settlement_id": str(settlement_id)}


def _require_person(who: Principal) -> None:
    if who.kind is not PrincipalKind.person:
        raise PersonNeeded(f"the policy calls this high-risk: two people settle it, and {who.name} is a service")
