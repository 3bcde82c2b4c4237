"""Alarms: what a person has to look at although nothing waits for it. Acknowledging says that somebody has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import AlarmAcknowledged, AlarmNotFound
from signoff.domain.operator_acts import Done, OperatorAct, once
from signoff.domain.ports import Store


async def acknowledge_alarm(store: Store, alarm_id: UUID, who: Principal, reason: str, request_id: str | None) -> Done:
    """Says that `who` has seen to it, and how.

    Raises: RightMissing, AlarmNotFound, AlarmAcknowledged, InvalidRequest (no reason), IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    async with store.begin() as tx:
        alarm = await tx.alarms.lock(alarm_id)
        if alarm is None:
            raise AlarmNotFound(f"there is no alarm {alarm_id}")
        act = OperatorAct(who, "alarm.acknowledge", str(alarm_id), reason, request_id, {}, alarm.job_id)

        async def do() -> Mapping[str, Any]:
            if alarm.acknowledged_by is not None:
                by = alarm.acknowledged_by
                raise AlarmAcknowledged(f"{by} has acknowledged the alarm already", acknowledged_by=by)
            await tx.alarms.acknowledge(alarm_id, who.name)
            return {"alarm_id": str(alarm_id), "operation_id": alarm.operation_id}

        return await once(tx, act, do)
