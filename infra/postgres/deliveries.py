"""What signed endpoints have sent: each delivery id counts once."""

from __future__ import annotations

from datetime import timedelta

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import DeliveryMismatch

FORGET = """
DELETE FROM signoff.deliveries WHERE (endpoint, id) IN (
    SELECT endpoint, id FROM signoff.deliveries WHERE received_at < clock_timestamp() - %s
    ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED)
"""


class DeliveryTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def remember(self, endpoint: str, delivery_id: str, body_digest: str) -> None:
        await self._conn.execute(
            "INSERT INTO signoff.deliveries (endpoint, id, body_digest) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (endpoint, delivery_id, body_digest),
        )
        cursor = await self._conn.execute(
            "SELECT body_digest FROM signoff.deliveries WHERE endpoint = %s AND id = %s", (endpoint, delivery_id)
        )
        row = await cursor.fetchone()
        if row is None or row["body_digest"] != body_digest:
            raise DeliveryMismatch(f"the delivery id {delivery_id!r} came before with another body")

    async def forget(self, *, kept: timedelta, limit: int) -> int:
        """Deletes some of those that came longer ago than they are kept."""
        return (await self._conn.execute(FORGET, (kept, limit))).rowcount
