"""A store and a Redis side by side, as the stream activities see them; what a test opens here is closed after it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid4

from redis.asyncio import Redis

from signoff.domain.endpoints import EVERYBODY, Endpoint
from signoff.domain.errors import BrokerUnavailable
from signoff.domain.events import EventType, NewEvent
from signoff.infra.hints import NoHints
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.redis.event_stream import STREAM
from signoff.infra.redis.inbound_stream import ABANDONED_MS, GROUP
from signoff.infra.redis.intake import TakeDecisions, TakeJobs
from signoff.infra.redis.publishing import PublishEvents
from signoff.infra.services import Services
from signoff.infra.settings import Settings
from signoff.infra.webhooks.signatures import new_secret
from tests.support.parked import people
from tests.support.savers import open_pool

ENDPOINT = "chat"


class Activity(Protocol):
    async def step(self) -> bool: ...

    async def close(self) -> None: ...


A = TypeVar("A", bound=Activity)


@dataclass
class World:
    """Everything that a stream activity needs, and ways to look at what came of it."""

    services: Services
    redis: Any  # the client's own types hold every version's answers
    redis_url: str
    secret: str
    opened: list[Activity] = field(default_factory=list)

    @property
    def store(self) -> PostgresStore:
        return self.services.store

    def publisher(self) -> PublishEvents:
        return self._opened(PublishEvents(self.store, self.redis_url, self.services.settings))

    def jobs_taker(self, store: PostgresStore | None = None) -> TakeJobs:
        return self._opened(TakeJobs(store or self.store, NoHints(), self.redis_url, self.services.settings))

    def decisions_taker(self) -> TakeDecisions:
        return self._opened(TakeDecisions(self.store, NoHints(), self.redis_url, self.services.settings))

    def _opened(self, activity: A) -> A:
        self.opened.append(activity)
        return activity

    async def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        async with self.store.connection() as conn:
            return await (await conn.execute(query, parameters)).fetchall()

    async def tell(self, *names: str, job_id: UUID | None = None) -> None:
        """Writes an event for each name, in one transaction."""
        events = [NewEvent(EventType.job_retried, name, "test", {}, job_id) for name in names]
        async with self.store.begin() as tx:
            await tx.events.append(*events)

    async def sent(self) -> list[dict[str, Any]]:
        """The CloudEvents in the stream, oldest first."""
        return [json.loads(fields[b"event"]) for _, fields in await self.redis.xrange(STREAM)]

    async def sent_subjects(self) -> list[str]:
        return [event["subject"] for event in await self.sent()]

    async def unsent(self) -> int:
        return len(await self.rows("SELECT 1 AS one FROM signoff.events WHERE published_at IS NULL"))

    async def refusals(self) -> list[dict[str, Any]]:
        """The data of the refusal events, with their type, oldest first."""
        found = await self.rows(
            "SELECT type, data FROM signoff.events WHERE type LIKE %s ORDER BY position", "%refused%"
        )
        return [{"type": row["type"], **row["data"]} for row in found]

    async def poison(self) -> list[tuple[str, bytes]]:
        rows = await self.rows("SELECT entry_id, body FROM signoff.poison_messages ORDER BY position")
        return [(row["entry_id"], row["body"]) for row in rows]

    async def abandon(self, stream: str, entry_id: bytes) -> None:
        """Makes a pending entry look as if its consumer had died long ago."""
        await self.redis.xclaim(stream, GROUP, "dead", 0, [entry_id], idle=ABANDONED_MS + 1, justid=True)

    def envelope(self, review_id: UUID, *decisions: dict[str, Any], age: int = 0, **changes: Any) -> dict[str, Any]:
        """The fields of a decision entry, signed by the endpoint, `age` seconds ago."""
        body = {"review_id": str(review_id), "reviewer": "rita", "decisions": list(decisions) or [{"type": "approve"}]}
        return {"endpoint": ENDPOINT, **signed(self.secret, json.dumps(body).encode(), age=age), **changes}


def signed(secret: str, body: bytes, *, age: int = 0, delivery: str | None = None) -> dict[str, Any]:
    """Standard Webhooks fields over the body, computed without the library."""
    delivery, timestamp = delivery or f"msg_{uuid4().hex}", str(int(time.time()) - age)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(mac).decode()
    return {"webhook-id": delivery, "webhook-timestamp": timestamp, "webhook-signature": signature, "body": body}


@asynccontextmanager
async def open_world(database_url: str, redis_url: str, **settings: Any) -> AsyncIterator[World]:
    async with open_pool(database_url) as pool:
        store = PostgresStore(pool)
        await people(store)
        secret = new_secret()
        async with store.begin() as tx:
            await EndpointTable(tx.conn).add(Endpoint(ENDPOINT, frozenset({EVERYBODY})), secret)
        redis = Redis.from_url(redis_url)
        world = World(Services(Settings(**settings), pool, store, NoHints()), redis, redis_url, secret)
        try:
            yield world
        finally:
            for activity in world.opened:
                await activity.close()
            await redis.aclose()


async def drained(activity: Activity, most: int = 50) -> None:
    """Steps until there is nothing more to do."""
    for _ in range(most):
        if not await activity.step():
            return
    raise AssertionError(f"{type(activity).__name__} is not done after {most} steps")


async def settled(activity: Activity, most: int = 10) -> None:
    """The same after a restart of Redis: a connection that it has closed may fail once, and groups are made anew."""
    quiet = 0
    for _ in range(most):
        try:
            quiet = 0 if await activity.step() else quiet + 1
        except BrokerUnavailable:
            quiet = 0
        if quiet == 2:
            return
    raise AssertionError(f"{type(activity).__name__} has not settled after {most} steps")
