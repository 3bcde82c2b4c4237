"""Pauses, as operators write and end them."""

from __future__ import annotations

from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.pausing import Pause, Scope
from signoff.infra.postgres import waking
from signoff.infra.postgres.audit_actor import name_actor

KNOWS = """
SELECT %(agent)s::text IS NULL OR EXISTS (SELECT FROM signoff.agents WHERE name = %(agent)s) AS agent,
    %(tool)s::text IS NULL OR EXISTS (SELECT FROM signoff.agents a WHERE a.tools -> %(tool)s IS NOT NULL
        AND (%(agent)s::text IS NULL OR a.name = %(agent)s)) AS tool
"""
UNDER_WAY = """
SELECT count(*) AS count FROM signoff.effects WHERE status = 'dispatched'
    AND (%(agent)s::text IS NULL OR agent = %(agent)s) AND (%(tool)s::text IS NULL OR tool = %(tool)s)
"""
ADD = """
INSERT INTO signoff.pauses (id, agent, tool, reason, created_by)
VALUES (%(id)s, %(agent)s, %(tool)s, %(reason)s, %(by)s)
"""


class PauseTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def knows(self, scope: Scope) -> str | None:
        row = await (await self._conn.execute(KNOWS, scope.view())).fetchone()
        assert row is not None
        return next((name for name in ("agent", "tool") if not row[name]), None)

    async def add(self, pause_id: UUID, scope: Scope, reason: str, by: str) -> None:
        await self._conn.execute(ADD, {"id": pause_id, "reason": reason, "by": by, **scope.view()})

    async def under_way(self, scope: Scope) -> int:
        row = await (await self._conn.execute(UNDER_WAY, scope.view())).fetchone()
        assert row is not None
        return int(row["count"])

    async def lock(self, pause_id: UUID) -> Pause | None:
        cursor = await self._conn.execute(
            "SELECT agent, tool, ended_by FROM signoff.pauses WHERE id = %s FOR UPDATE", (pause_id,)
        )
        row = await cursor.fetchone()
        return None if row is None else Pause(pause_id, Scope(row["agent"], row["tool"]), row["ended_by"])

    async def end(self, pause_id: UUID, by: str) -> None:
        await name_actor(self._conn, by)
        await self._conn.execute(
            "UPDATE signoff.pauses SET ended_by = %s, ended_at = clock_timestamp() WHERE id = %s", (by, pause_id)
        )

    async def wake_paused(self, per_second: float | None) -> int:
        return await waking.wake_paused(self._conn, per_second)
