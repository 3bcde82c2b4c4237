"""Notices a database that was restored without a word: what Redis has seen of it is no longer there."""

from __future__ import annotations

import logging
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from redis.asyncio import Redis

from signoff.domain.errors import BrokerUnavailable, DatabaseRestored
from signoff.domain.going_back import Whereabouts, has_gone_back
from signoff.infra.postgres.restoring import WATCH
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.whereabouts import hash_of_seal, whereabouts
from signoff.infra.redis.connection import connect
from signoff.infra.redis.seen import recall, remember

log = logging.getLogger(__name__)

# Everything, for everybody: nothing leaves until the restore was told, or an operator has ended the pause.
PAUSE = """
INSERT INTO signoff.pauses (id, reason, created_by) SELECT %(id)s, %(reason)s, %(watch)s
WHERE NOT EXISTS (SELECT FROM signoff.pauses WHERE created_by = %(watch)s AND ended_at IS NULL)
"""


async def require_not_restored(conn: AsyncConnection[DictRow], redis_url: str, timeout_seconds: float) -> None:
    """For a process that is about to start. Without Redis nothing is known, and nothing can be said.

    Raises:
        DatabaseRestored.
    """
    client = connect(redis_url, timeout_seconds)
    try:
        if seen := await _lost(conn, client):
            raise DatabaseRestored(_words(seen))
    except BrokerUnavailable as error:
        log.warning("not known whether the database was restored", extra={"error": str(error)})
    finally:
        await client.aclose()


class WatchDatabase:
    """An activity of the dispatcher: keeps in Redis how far the database is; holds everything back where it has gone
    back meanwhile."""

    def __init__(self, store: PostgresStore, redis_url: str, timeout_seconds: float) -> None:
        self._store = store
        self._client = connect(redis_url, timeout_seconds)
        self._said: Whereabouts | None = None

    async def step(self) -> bool:
        """Raises BrokerUnavailable, StoreUnavailable."""
        async with self._store.connection() as conn:
            if seen := await _lost(conn, self._client):
                log.error("the database was restored", extra={"found": _words(seen)})
                await conn.execute(PAUSE, {"id": uuid4(), "reason": _words(seen), "watch": WATCH})
                return False
            now = await whereabouts(conn)
        if now != self._said and now.seal:
            await remember(self._client, now)
            self._said = now
        return False

    async def close(self) -> None:
        await self._client.aclose()


async def _lost(conn: AsyncConnection[DictRow], client: Redis) -> Whereabouts | None:
    """What was seen and is gone."""
    seen = await recall(client)
    if seen is None:
        return None
    now = await whereabouts(conn)
    return seen if has_gone_back(seen, now, await hash_of_seal(conn, seen.seal)) else None


def _words(seen: Whereabouts) -> str:
    return (
        f"the database has lost seal {seen.seal} of its audit, which it had: a backup was restored. What happened since"
        " may happen again: say so with `signoff restored --since TIME --reason TEXT`, or end this pause"
    )
