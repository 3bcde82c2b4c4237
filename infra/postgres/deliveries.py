"""What signed endpoints have sent: each delivery id counts once."""

from __future__ import annotations

from datetime import timedelta

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import DeliveryMismatch, EndpointNotFound

# Under the endpoint's lock: one that is revoked meanwhile decides nothing more.
REMEMBER = """
INSERT INTO signoff.deliveries (endpoint, id, body_digest)
SELECT name, %s, %s FROM signoff.endpoints WHERE name = %s AND revoked_at IS NULL FOR SHARE
ON CONFLICT DO NOTHING
"""
REMEMBERED = """
SELECT e.revoked_at IS NOT NULL AS revoked, d.body_digest
FROM signoff.endpoints e LEFT JOIN signoff.deliveries d ON d.endpoint = e.name AND d.id = %s WHERE e.name = %s
"""
FORGET = """
DELETE FROM signoff.deliveries WHERE (endpoint, id) IN (
    SELECT endpoint, id FROM signoff.deliveries WHERE received_at < clock_timestamp() - %s
    ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED)
"""


class DeliveryTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def remember(self, endpoint: str, delivery_id: str, body_digest: str) -> None:
        """Raises DeliveryMismatch if the id came before with another body, EndpointNotFound if that is revoked."""
        await self._conn.execute(REMEMBER, (delivery_id, body_digest, endpoint))
        row = await (await self._conn.execute(REMEMBERED, (delivery_id, endpoint))).fetchone()
        if row is None or row["revoked"]:
            raise EndpointNotFound(f"there is no endpoint {endpoint!r}")
        if row["body_digest"] != body_digest:
            raise DeliveryMismatch(f"the delivery id {delivery_id!r} came before with another body")

    async def forget(self, *, kept: timedelta, limit: int) -> int:
        """Deletes some of those that came longer ago than they are kept."""
        return (await self._conn.execute(FORGET, (kept, limit))).rowcount
