"""Having a provider asked what became of an effect in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.domain.authority import Right, require_right
from signoff.domain.effects import EffectClass, EffectStatus
from signoff.domain.errors import EffectNotFound, EffectNotInDoubt, EffectNotProbeable
from signoff.domain.findings import lock_effect
from signoff.domain.jobs import Job
from signoff.domain.operator_acts import Done, once
from signoff.domain.ports import Hints, Store, Transaction
from signoff.domain.settlements import Settlement


async def probe_effect(store: Store, hints: Hints, operation_id: str, settlement: Settlement) -> Done:
    """Has a worker ask the provider now, beside the runs of the job; the finding is recorded, and may settle the doubt.

    Raises: RightMissing, EffectNotFound, EffectNotInDoubt, EffectNotProbeable, InvalidRequest, IdempotencyMismatch.
    """
    require_right(settlement.who, Right.operate)
    asked: list[Job] = []
    async with store.begin() as tx:
        job_id = await tx.effects.job_of(operation_id)
        if job_id is None:
            raise EffectNotFound(f"there is no effect {operation_id}")

        async def do() -> Mapping[str, Any]:
            asked.append(await _ask(tx, operation_id))
            return {"operation_id": operation_id, "status": str(EffectStatus.in_doubt)}

        done = await once(tx, settlement.act("effect.probe", operation_id, job_id, {}), do)
    for job in asked:
        hints.offer_effect(job.agent, operation_id)
    return done


async def _ask(tx: Transaction, operation_id: str) -> Job:
    effect, job = await lock_effect(tx, operation_id)
    if effect.status is not EffectStatus.in_doubt:
        raise EffectNotInDoubt(f"the effect is {effect.status}: there is nothing to ask", status=str(effect.status))
    declared = await tx.effects.class_of(operation_id)
    if declared is not EffectClass.queryable:
        raise EffectNotProbeable(
            f"its tool is {declared or 'opaque'}: the provider can't be asked, so a person has to find out"
        )
    await tx.doubt.ask_provider(operation_id)
    return job
