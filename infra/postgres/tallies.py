"""Tallies: what is counted and leaves no row elsewhere."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

LEASES_LAPSED = "leases_lapsed"
FENCE_REJECTIONS = "fence_rejections"

COUNT = """
INSERT INTO signoff.tallies AS t (name, label, value) VALUES (%s, %s, %s)
ON CONFLICT (name, label) DO UPDATE SET value = t.value + excluded.value
"""


async def count(conn: AsyncConnection[DictRow], name: str, label: str = "", by: int = 1) -> None:
    """In a transaction: last of all, since everybody who counts the same waits for it to end."""
    await conn.execute(COUNT, (name, label, by))
