"""Reviews with a rung of the ladder that is due."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

# What has passed its deadline expires, and climbs no more.
DUE = """
SELECT review_id FROM signoff.items
WHERE status = 'open' AND next_rung_at IS NOT NULL AND next_rung_at <= clock_timestamp()
    AND (deadline_at IS NULL OR deadline_at > clock_timestamp())
GROUP BY review_id ORDER BY min(next_rung_at) LIMIT %s
"""


async def due_ladders(conn: AsyncConnection[DictRow], limit: int) -> Sequence[UUID]:
    """By the database's clock, the longest due first."""
    return [row["review_id"] for row in await (await conn.execute(DUE, (limit,))).fetchall()]
