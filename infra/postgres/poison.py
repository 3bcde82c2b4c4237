"""Inbound messages that could not be read, set aside with their bytes."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.canonical import scrub

INSERT = """
INSERT INTO signoff.poison_messages (stream, entry_id, body, error) VALUES (%s, %s, %s, %s)
ON CONFLICT (stream, entry_id) DO NOTHING RETURNING position
"""


class PoisonTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def set_aside(self, source: str, entry_id: str, body: bytes, error: str) -> bool:
        """False if that message lies there already."""
        cursor = await self._conn.execute(INSERT, (source, entry_id, body, scrub(error)))
        return await cursor.fetchone() is not None
