"""What an operator may do to an effect or a job that needs a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.domain.authority import Right, require_right
from signoff.domain.effects import Effect
from signoff.domain.errors import EffectNotFound, InvalidRequest
from signoff.domain.findings import REPLAYED, Finding, Move, carry_out, lock_effect, move_of
from signoff.domain.jobs import Job
from signoff.domain.operator_acts import Done, OperatorAct, once
from signoff.domain.ports import Hints, Store, Transaction
from signoff.domain.retrying import retry_job
from signoff.domain.settlements import Settlement
from signoff.domain.settling import is_high_risk, propose
from signoff.domain.told import Result, text_of

__all__ = ["Finding", "Settlement", "replay_effect", "resolve_effect", "retry_job", "skip_effect"]


async def resolve_effect(
    store: Store,
    hints: Hints,
    operation_id: str,
    finding: Finding,
    settlement: Settlement,
    result: Result | None,
    *,
    environment: str,
) -> Done:
    """Settles doubt: `applied` ends it as succeeded with `result`; `not_applied` lets it be sent again, or ends it as
    cancelled if its job has ended. Where the policy calls the call high-risk, a second person has to confirm it: then
    the outcome has `waits_for_second`, and nothing else has changed.

    Raises: RightMissing, EffectNotFound, EffectNotInDoubt, InvalidRequest (no reason, or applied without a reference),
    IdempotencyMismatch, PersonNeeded, SettlementOpen.
    """
    if finding is Finding.applied and not settlement.reference:
        raise InvalidRequest("'applied' needs the provider's reference")
    told = text_of(result) if result is not None and finding is Finding.applied else None
    body = {"finding": str(finding), "reference": settlement.reference, "result": told}
    return await _settle(store, hints, operation_id, "resolve", settlement, body, environment)


async def skip_effect(
    store: Store, hints: Hints, operation_id: str, settlement: Settlement, substitute: Result, *, environment: str
) -> Done:
    """Ends an effect that is in doubt, failed or dead with a substitute, which the agent sees labelled as such; a
    second person has to confirm it as with `resolve_effect`.

    Raises: RightMissing, EffectNotFound, EffectNotReplayable, InvalidRequest (no reason), IdempotencyMismatch,
    PersonNeeded, SettlementOpen.
    """
    body = {"result": text_of(substitute)}
    return await _settle(store, hints, operation_id, "skip", settlement, body, environment)


async def replay_effect(store: Store, hints: Hints, operation_id: str, settlement: Settlement) -> Done:
    """Plans a failed or dead effect again, under a new generation if it failed for certain.

    Raises: RightMissing, EffectNotFound, InvalidRequest, EffectNotReplayable (it succeeded, is under way or in doubt),
    EffectPurged, IdempotencyMismatch.
    """
    return await _settle(store, hints, operation_id, "replay", settlement, {}, None)


async def _settle(
    store: Store,
    hints: Hints,
    operation_id: str,
    word: str,
    settlement: Settlement,
    body: Mapping[str, Any],
    environment: str | None,
) -> Done:
    require_right(settlement.who, Right.operate)
    moved: list[Job] = []
    async with store.begin() as tx:
        job_id = await tx.effects.job_of(operation_id)
        if job_id is None:
            raise EffectNotFound(f"there is no effect {operation_id}")
        act = settlement.act(f"effect.{word}", operation_id, job_id, body)

        async def do() -> Mapping[str, Any]:
            effect, job = await lock_effect(tx, operation_id)
            moved.append(job)
            return await _do(tx, effect, job, act, REPLAYED if word == "replay" else move_of(body), environment)

        done = await once(tx, act, do)
    for job in moved:
        hints.offer(job.agent, job.id)
        hints.offer_effect(job.agent, operation_id)
    return done


async def _do(
    tx: Transaction, effect: Effect, job: Job, act: OperatorAct, move: Move, environment: str | None
) -> Mapping[str, Any]:
    move.require(effect)
    if environment is not None and await is_high_risk(tx, effect, job, environment):
        return await propose(tx, effect, act)
    after = await carry_out(tx, effect, job, move, act.who.name, act.reason)
    return {"operation_id": after.operation_id, "status": str(after.status), "generation": after.generation}
