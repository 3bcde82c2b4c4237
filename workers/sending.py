"""What the dispatcher does so that events reach subscriptions: it finds for whom each is, and sends what is due."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID, uuid4

from signoff.domain.events import Event, EventType, NewEvent
from signoff.domain.sendings import MOST_TRIES, Meaning, Reply, after
from signoff.domain.subscriptions import EventFacts, SubscriptionKind, matches_type
from signoff.infra.mail import Mailer
from signoff.infra.postgres.event_facts import facts_of
from signoff.infra.postgres.sendings import Claimed, NewSending, SendingTable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.infra.postgres.subscriptions import OURSELVES, Subscription, SubscriptionTable
from signoff.infra.postgres.views_events import read_cursor
from signoff.infra.webhooks.bodies import body_of
from signoff.infra.webhooks.outbound import CLOUDEVENT, JSON, Poster, Request

log = logging.getLogger(__name__)

EVENTS_AT_ONCE = 200
SENDINGS_AT_ONCE = 32
OF_ONE_SUBSCRIPTION = 8
FORGOTTEN_AT_ONCE = 500
# Well beyond the time limit of an attempt: a second dispatcher takes over only what the first has lost.
LEASE = timedelta(seconds=60)
SENT_KEPT = timedelta(days=30)
PATIENCE_SECONDS = 0.25
CLOSING_SECONDS = 5.0


class FanOutEvents:
    """Looks at the events behind each subscription's cursor, and plans a sending for each that it wants."""

    def __init__(self, store: PostgresStore, public_url: str | None) -> None:
        self._store = store
        self._public_url = public_url

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            behind = await SubscriptionTable(conn).behind()
        more = [await self._fan_out(id_) for id_ in behind]
        return any(more)

    async def _fan_out(self, id_: UUID) -> bool:
        """Plans the sendings and moves the cursor in one transaction: nothing is skipped, nothing planned twice."""
        async with self._store.begin() as tx:
            subscriptions = SubscriptionTable(tx.conn)
            subscription = await subscriptions.hold(id_)
            events = await tx.events.after(*subscription.cursor, EVENTS_AT_ONCE) if subscription else []
            if subscription is None or not events:
                return False
            await SendingTable(tx.conn).add(await self._planned(tx, subscription, events))
            await subscriptions.move_cursor(id_, read_cursor(events[-1].cursor))
            return len(events) == EVENTS_AT_ONCE

    async def _planned(
        self, tx: PostgresTransaction, subscription: Subscription, events: Sequence[Event]
    ) -> list[NewSending]:
        of_type = [event for event in events if matches_type(subscription.event_types, event.type)]
        facts = await facts_of(tx.conn, of_type)
        wanted = [event for event in of_type if subscription.filter.matches(facts[event.id])]
        return [self._sending(subscription, event, facts[event.id]) for event in wanted]

    def _sending(self, subscription: Subscription, event: Event, facts: EventFacts) -> NewSending:
        body = body_of(subscription, event, facts, self._public_url)
        return NewSending(
            uuid4(), subscription.id, event.id, event.cursor, event.type, event.job_id, event.sequence, body
        )


class SendDue:
    """Sends what is due, several at a time; holds no connection to the database while it waits for a receiver."""

    def __init__(
        self, store: PostgresStore, poster: Poster, mailer: Mailer, jitter: Callable[[], float] = random.random
    ) -> None:
        self._store = store
        self._poster = poster
        self._mailer = mailer
        self._jitter = jitter
        self._running: dict[asyncio.Task[None], UUID] = {}

    async def step(self) -> bool:
        """Begins as many as there is room for; True while some are under way, since an end may let the next one go."""
        for sending in await self._claim():
            self._running[asyncio.create_task(self._attempt(sending))] = sending.subscription_id
        if not self._running:
            return False
        await asyncio.wait(self._running, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        self._running = {task: of for task, of in self._running.items() if not task.done()}
        return True

    async def close(self) -> None:
        """Lets those under way end, for a while; what is cut off is sent again when its lease lapses."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._mailer.close()

    async def _claim(self) -> Sequence[Claimed]:
        room = SENDINGS_AT_ONCE - len(self._running)
        if room <= 0:
            return []
        running = Counter(self._running.values())
        async with self._store.begin() as tx:
            return await SendingTable(tx.conn).claim(each=OF_ONE_SUBSCRIPTION, limit=room, running=running, lease=LEASE)

    async def _attempt(self, sending: Claimed) -> None:
        """Without a record the lease lapses, and it is sent again with the same id."""
        try:
            reply = await self._send(sending)
            await self._record(sending, reply)
        except Exception as error:
            log.warning("an attempt was not recorded", extra=_facts(sending), exc_info=error)

    async def _send(self, sending: Claimed) -> Reply:
        if sending.tries > MOST_TRIES:
            return Reply(Meaning.refused, error="every try was lost with its dispatcher")
        try:
            if sending.kind is SubscriptionKind.mail:
                message_id = f"{sending.event_id}.{sending.subscription_id}"
                return await self._mailer.send(sending.target, sending.body, message_id, sending.now)
            return await self._poster.post(_request(sending))
        except Exception as error:
            log.error("an attempt met an error of ours", extra=_facts(sending), exc_info=error)
            return Reply(Meaning.failed, error="an error of ours; it is in the dispatcher's log")

    async def _record(self, sending: Claimed, reply: Reply) -> None:
        then = after(reply, tries=sending.tries, waited=sending.now - sending.asked_at, jitter=self._jitter())
        async with self._store.begin() as tx:
            if reply.meaning is Meaning.gone:
                await _disable(tx, sending)
            recorded = await SendingTable(tx.conn).record(sending, reply, then)
        facts = {"to": str(then.to), "status": reply.status, "error": reply.error, "recorded": recorded}
        log.log(
            logging.DEBUG if reply.meaning is Meaning.taken else logging.WARNING,
            "attempt ended",
            extra={**_facts(sending), **facts},
        )


class ForgetOldSendings:
    """Deletes sendings that arrived long ago; dead ones stay for an operator."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            forgotten = await SendingTable(tx.conn).forget(kept=SENT_KEPT, limit=FORGOTTEN_AT_ONCE)
        return forgotten == FORGOTTEN_AT_ONCE


async def _disable(tx: PostgresTransaction, sending: Claimed) -> None:
    reason = "the receiver answered 410: it is gone"
    if await SubscriptionTable(tx.conn).disable(sending.subscription_id, OURSELVES, reason):
        data = {"subscription_id": str(sending.subscription_id), "name": sending.name, "reason": reason}
        subject = f"subscriptions/{sending.subscription_id}"
        await tx.events.append(NewEvent(EventType.subscription_disabled, subject, OURSELVES, data))


def _request(sending: Claimed) -> Request:
    return Request(
        target=sending.target,
        body=sending.body,
        content_type=CLOUDEVENT if sending.kind is SubscriptionKind.webhook else JSON,
        id=str(sending.event_id),
        secrets=sending.secrets,
        allow_private=sending.allow_private,
    )


def _facts(sending: Claimed) -> dict[str, object]:
    return {"subscription": sending.name, "sending_id": str(sending.id), "attempt": sending.attempts}
