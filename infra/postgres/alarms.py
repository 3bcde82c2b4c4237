"""Alarms: the rows that operators acknowledge."""

from __future__ import annotations

from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.raised_alarms import RaisedAlarm


class AlarmTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def lock(self, alarm_id: UUID) -> RaisedAlarm | None:
        cursor = await self._conn.execute(
            "SELECT id, operation_id, job_id, acknowledged_by FROM signoff.alarms WHERE id = %s FOR UPDATE", (alarm_id,)
        )
        row = await cursor.fetchone()
        return None if row is None else RaisedAlarm(**row)

    async def acknowledge(self, alarm_id: UUID, by: str) -> None:
        await self._conn.execute(
            "UPDATE signoff.alarms SET acknowledged_at = clock_timestamp(), acknowledged_by = %s"
            " WHERE id = %s AND acknowledged_at IS NULL",
            (by, alarm_id),
        )
