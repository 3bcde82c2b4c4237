"""Results that are too large for the agent, each kept whole beside its effect."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

KEEP = """
INSERT INTO signoff.results_aside (operation_id, result_type, result) VALUES (%s, %s, %s)
ON CONFLICT (operation_id) DO UPDATE
    SET result_type = excluded.result_type, result = excluded.result, created_at = excluded.created_at
"""


async def keep(conn: AsyncConnection[DictRow], operation_id: str, packed: tuple[str, bytes]) -> None:
    """Keeps the whole result (type, bytes): in the transaction that records its beginning."""
    await conn.execute(KEEP, (operation_id, *packed))


async def read(conn: AsyncConnection[DictRow], operation_id: str) -> tuple[str, bytes] | None:
    """The whole result, if it was too large for the agent."""
    cursor = await conn.execute(
        "SELECT result_type, result FROM signoff.results_aside WHERE operation_id = %s", (operation_id,)
    )
    row = await cursor.fetchone()
    return None if row is None else (row["result_type"], row["result"])
