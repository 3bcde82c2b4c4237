"""What was found out about effects and waits for a second person."""

from __future__ import annotations

from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.effects import EffectStatus
from signoff.domain.settlements import Waiting

COLUMNS = "id, operation_id, act, body, digest, reason, status, attempts, proposed_by"


class SettlementTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def waiting(self, operation_id: str) -> Waiting | None:
        cursor = await self._conn.execute(
            f"SELECT {COLUMNS} FROM signoff.settlements WHERE operation_id = %s AND ending IS NULL FOR UPDATE",
            (operation_id,),
        )
        row = await cursor.fetchone()
        return None if row is None else Waiting(**{**row, "status": EffectStatus(row["status"])})

    async def add(self, waiting: Waiting) -> None:
        what = (waiting.act, Json(dict(waiting.body)), waiting.digest, waiting.reason)
        where = (waiting.status, waiting.attempts)
        await self._conn.execute(
            f"INSERT INTO signoff.settlements ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (waiting.id, waiting.operation_id, *what, *where, waiting.proposed_by),
        )

    async def end(self, settlement_id: UUID, ending: str, by: str) -> None:
        await self._conn.execute(
            "UPDATE signoff.settlements SET ending = %s, ended_by = %s, ended_at = clock_timestamp()"
            " WHERE id = %s AND ending IS NULL",
            (ending, by, settlement_id),
        )
