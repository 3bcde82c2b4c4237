"""Sending events to Redis: at least once, each job's in order, whatever becomes of either side in between."""

from __future__ import annotations

import logging
from datetime import timedelta

from signoff.infra.postgres.outbox import Outbox
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.redis.connection import connect
from signoff.infra.redis.event_stream import EventStream, Gap
from signoff.infra.settings import Settings

MOST_EVENTS = 500
MOST_BYTES = 2_000_000
MOST_UNSENT = 10_000
MOST_FORGOTTEN = 1_000
# Clocks step; sending a few events twice does no harm.
MARGIN = timedelta(minutes=1)

log = logging.getLogger(__name__)


class PublishEvents:
    """Any number may run; one at a time publishes, the others find its lock and go on."""

    def __init__(self, store: PostgresStore, redis_url: str, settings: Settings) -> None:
        self._store = store
        self._client = connect(redis_url, settings.publish_timeout_seconds)
        self._retention = timedelta(seconds=settings.event_retention_seconds)
        self._stream = EventStream(self._client, self._retention)

    async def step(self) -> bool:
        """Sends some events, or notices that Redis lost some. A crash before the commit sends them again.

        Raises:
            BrokerUnavailable, StoreUnavailable: nothing is marked as sent.
        """
        async with self._store.begin() as tx:
            outbox = Outbox(tx.conn)
            now = await outbox.hold()
            if now is None:
                return False
            batch = await outbox.unsent(limit=MOST_EVENTS, most_bytes=MOST_BYTES)
            gap = await self._stream.append(batch.events, now)
            if gap is None:
                await outbox.mark_sent(batch, now)
                return bool(batch.events)
            # From here to the release nobody can append, and whoever appended before has committed: the lock says so.
            token = await self._stream.suspend(gap)
        await self._fill(gap, token)
        return True

    async def _fill(self, gap: Gap, token: str) -> None:
        """Takes back in Postgres what Redis lost, and only then lets the stream be used."""
        log.warning("events are sent again", extra={"since": gap.since and gap.since.isoformat()})
        behind: int | None = 0
        while behind is not None:
            behind = await self._take_back(gap, behind)
        if not await self._stream.release(token):
            log.warning("Redis changed once more while events were taken back")

    async def _take_back(self, gap: Gap, behind: int) -> int | None:
        async with self._store.begin() as tx:
            oldest = await tx.now() - self._retention
            since = oldest if gap.since is None else max(oldest, gap.since - MARGIN)
            return await Outbox(tx.conn).send_again(since=since, behind=behind, limit=MOST_UNSENT)

    async def close(self) -> None:
        await self._client.aclose()


class ForgetOldEvents:
    """Deletes events, a few at a time, once they were sent and the retention has passed."""

    def __init__(self, store: PostgresStore, settings: Settings) -> None:
        self._store = store
        self._kept = timedelta(seconds=settings.event_retention_seconds)

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            return await Outbox(tx.conn).forget(kept=self._kept, limit=MOST_FORGOTTEN) == MOST_FORGOTTEN

    async def close(self) -> None:
        """Nothing is held."""
