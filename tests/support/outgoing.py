"""Subscriptions over a real database and a receiver on loopback, sent to by the dispatcher's activities."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from signoff.domain.events import EventType, NewEvent
from signoff.infra.mail import Mailer, Relay
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.webhooks.outbound import Poster
from signoff.infra.webhooks.subscribing import Created, create_subscription
from signoff.workers.sending import FanOutEvents, SendDue
from tests.support.api import open_store
from tests.support.databases import fresh_database
from tests.support.parked import OPERATOR, submitted
from tests.support.receiver import Receiver, open_receiver
from tests.support.savers import Server

TLS = httpx.create_ssl_context()


@dataclass
class Outgoing:
    store: PostgresStore
    receiver: Receiver
    relay: Relay | None = None
    public_url: str | None = None

    async def subscribe(self, name: str = "billing", **fields: Any) -> Created:
        """A webhook to the receiver, unless the fields say otherwise."""
        raw = {"name": name, "kind": "webhook", "target": self.receiver.url, "allow_private": True, **fields}
        return await create_subscription(self.store, raw, OPERATOR)

    async def job(self) -> UUID:
        """A job, whose events are there before any subscription's."""
        return (await submitted(self.store)).id

    async def tell(self, *names: str, job_id: UUID | None = None) -> None:
        """Writes an event for each name, in one transaction."""
        events = [NewEvent(EventType.job_retried, name, "test", {}, job_id) for name in names]
        async with self.store.begin() as tx:
            await tx.events.append(*events)

    async def fan_out(self) -> None:
        fanning = FanOutEvents(self.store, self.public_url)
        while await fanning.step():
            pass

    def sender(self, **poster: Any) -> SendDue:
        return SendDue(self.store, Poster(tls=TLS, **poster), Mailer(self.relay), jitter=lambda: 0.5)

    async def send(self, sender: SendDue | None = None) -> None:
        """Everything that is due by now, and what becomes due by that."""
        sender = sender or self.sender()
        await self.fan_out()
        for _ in range(200):
            if not await sender.step():
                return
        raise AssertionError("there is always something more to send")

    async def later(self) -> None:
        """Whatever waits for its time is due."""
        await self.rows("UPDATE signoff.sendings SET next_at = clock_timestamp() WHERE status = 'pending' RETURNING 1")

    async def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        async with self.store.connection() as conn:
            return await (await conn.execute(query, parameters)).fetchall()

    async def sendings(self) -> list[dict[str, Any]]:
        """Every sending with the seconds until it is due, in the order of its events."""
        return await self.rows(
            "SELECT *, extract(epoch FROM next_at - clock_timestamp())::float8 AS due_in FROM signoff.sendings"
            " ORDER BY subscription_id, job_id, sequence, created_at"
        )

    async def statuses(self) -> Sequence[str]:
        return [row["status"] for row in await self.sendings()]

    def subjects(self) -> list[str]:
        """What the receiver was sent, in its order."""
        return [request.event["subject"] for request in self.receiver.log]


@contextmanager
def database_of_module(server: Server, template_url: str) -> Iterator[str]:
    """A migrated database for all tests of a module: emptying it takes less than cloning one."""
    with fresh_database(server.url, template=urlsplit(template_url).path.removeprefix("/")) as url:
        yield url


@asynccontextmanager
async def open_outgoing(database_url: str) -> AsyncIterator[Outgoing]:
    """Without a subscription that another test has left, and with all of its events behind."""
    async with open_store(database_url) as services, open_receiver() as receiver:
        async with services.store.connection() as conn:
            await conn.execute("TRUNCATE signoff.subscriptions, signoff.subscription_secrets, signoff.sendings")
            await conn.execute("DELETE FROM signoff.events")
        yield Outgoing(services.store, receiver)
