"""Who changes rows that don't say it themselves: the audit asks the transaction."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow


async def name_actor(conn: AsyncConnection[DictRow], actor: str) -> None:
    """Holds to the end of the transaction."""
    await conn.execute("SELECT set_config('signoff.actor', %s, true)", (actor,))
