"""Threads in Postgres. The head columns belong to the saver."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow


class ThreadTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def create(self, thread_id: str, agent: str, by: str) -> bool:
        cursor = await self._conn.execute(
            "INSERT INTO signoff.threads (id, agent, lineage_root, created_by) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING RETURNING id",
            (thread_id, agent, thread_id, by),
        )
        return await cursor.fetchone() is not None

    async def owner(self, thread_id: str) -> tuple[str, str] | None:
        cursor = await self._conn.execute("SELECT agent, created_by FROM signoff.threads WHERE id = %s", (thread_id,))
        row = await cursor.fetchone()
        return None if row is None else (row["agent"], row["created_by"])
