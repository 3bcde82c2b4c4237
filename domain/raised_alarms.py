"""Alarms as they were raised, and how the store keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class RaisedAlarm:
    """An alarm as it was raised."""

    id: UUID
    operation_id: str
    job_id: UUID
    acknowledged_by: str | None


class Alarms(Protocol):
    async def lock(self, alarm_id: UUID) -> RaisedAlarm | None: ...

    async def acknowledge(self, alarm_id: UUID, by: str) -> None: ...
