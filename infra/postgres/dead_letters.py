"""Dead letters that are rows of their own: messages that were set aside, and sendings that were given up."""

from __future__ import annotations

from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.dead_letters import DeadSending, Message
from signoff.infra.postgres.sendings import ASK_AGAIN

LOCK_MESSAGE = """
SELECT position, stream AS source, entry_id, body, settlement FROM signoff.poison_messages
WHERE position = %s FOR NO KEY UPDATE
"""
SETTLE_MESSAGE = """
UPDATE signoff.poison_messages SET settlement = %s, settled_by = %s, settled_at = clock_timestamp() WHERE position = %s
"""
LOCK_SENDING = """
SELECT s.id, n.name AS subscription, s.status = 'dead' AS is_dead, n.disabled_at IS NOT NULL AS is_disabled
FROM signoff.sendings s JOIN signoff.subscriptions n ON n.id = s.subscription_id WHERE s.id = %s
FOR NO KEY UPDATE OF s
"""


class DeadLetterTable:
    """Each is called with its row locked."""

    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def lock_message(self, position: int) -> Message | None:
        row = await (await self._conn.execute(LOCK_MESSAGE, (position,))).fetchone()
        return None if row is None else Message(**row)

    async def settle_message(self, position: int, settlement: str, by: str) -> None:
        await self._conn.execute(SETTLE_MESSAGE, (settlement, by, position))

    async def lock_sending(self, sending_id: UUID) -> DeadSending | None:
        row = await (await self._conn.execute(LOCK_SENDING, (sending_id,))).fetchone()
        return None if row is None else DeadSending(**row)

    async def requeue_sending(self, sending_id: UUID) -> None:
        await self._conn.execute(ASK_AGAIN + " WHERE id = %s AND status = 'dead'", (sending_id,))

    async def discard_sending(self, sending_id: UUID) -> None:
        await self._conn.execute(
            "UPDATE signoff.sendings SET status = 'discarded' WHERE id = %s AND status = 'dead'", (sending_id,)
        )
