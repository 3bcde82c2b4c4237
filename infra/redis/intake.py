"""The inbound streams `signoff:jobs` and `signoff:decisions`: taken into the use cases, acknowledged afterwards."""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from contextlib import suppress

from signoff.domain.canonical import scrub
from signoff.domain.errors import BrokerUnavailable, SignoffError, Unavailable
from signoff.domain.events import EventType
from signoff.domain.ports import Hints
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.redis.connection import connect
from signoff.infra.redis.inbound_stream import Entry, Fields, InboundStream
from signoff.infra.redis.taking import Intake, Origin, SignedDecision, arrival, missing
from signoff.infra.settings import Settings
from signoff.infra.telemetry.tracing import NO_TRACING, Tracing
from signoff.infra.webhooks.signatures import SignatureHeaders

JOBS = "signoff:jobs"
DECISIONS = "signoff:decisions"
DOOR = "stream"
BATCH = 20
# Handed out so often without an answer, an entry kills whoever takes it.
MOST_DELIVERIES = 5
RECLAIM_EVERY_SECONDS = 5.0
MOST_CORRELATION_CHARACTERS = 200
HEADERS = ("id", "timestamp", "signature")

log = logging.getLogger(__name__)


class TakeEntries(ABC):
    """What both streams have in common. Any number may run."""

    stream: str
    refusal: EventType
    payload: bytes

    def __init__(
        self,
        store: PostgresStore,
        hints: Hints,
        redis_url: str,
        settings: Settings,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._tracing = tracing
        self._client = connect(redis_url, settings.publish_timeout_seconds)
        self._stream = InboundStream(self._client, self.stream)
        self._intake = Intake(store, hints, settings)
        self._reclaim_at = 0.0

    async def step(self) -> bool:
        """Takes some entries, first those that a dead consumer has left.

        Raises:
            Unavailable: what was not taken stays in the stream, and counts as not handed out.
        """
        entries = await self._next()
        for place, entry in enumerate(entries):
            try:
                await self._take(entry)
            except Unavailable:
                self._reclaim_at = 0.0
                with suppress(BrokerUnavailable):
                    await self._stream.give_back(entries[place:])
                raise
        return bool(entries)

    async def close(self) -> None:
        await self._stream.leave()
        await self._client.aclose()

    async def _next(self) -> list[Entry]:
        if _now() >= self._reclaim_at:
            abandoned = await self._stream.reclaim()
            if abandoned is not None:
                return [abandoned]
            self._reclaim_at = _now() + RECLAIM_EVERY_SECONDS
        return await self._stream.read(BATCH)

    async def _take(self, entry: Entry) -> None:
        origin = Origin(self.stream, entry.id, DOOR, _correlation_id(entry.fields))
        if entry.times_delivered > MOST_DELIVERIES:
            await self._give_up(origin, entry, "whoever took it ended before there was an answer")
        else:
            try:
                await self._handle(origin, entry)
            except Unavailable:
                raise
            except Exception as error:
                log.exception("entry not taken", extra={"stream": self.stream, "id": entry.id})
                if entry.times_delivered < MOST_DELIVERIES:
                    return
                await self._give_up(origin, entry, f"{type(error).__name__}: {error}")
        await self._stream.done(entry)

    async def _give_up(self, origin: Origin, entry: Entry, reason: str) -> None:
        tries = f"taken {entry.times_delivered} times without an answer: {reason}; {self._beside(entry.fields)}"
        await self._set_aside(origin, entry, SignoffError(tries))

    async def _set_aside(self, origin: Origin, entry: Entry, error: SignoffError) -> None:
        body = entry.fields.get(self.payload)
        await self._intake.set_aside(origin, self.refusal, _all_of(entry.fields) if body is None else body, error)

    @abstractmethod
    async def _handle(self, origin: Origin, entry: Entry) -> None:
        """Returns once the entry may be acknowledged."""

    @abstractmethod
    def _beside(self, fields: Fields) -> str:
        """What an operator needs beside the payload to offer the entry again."""


class TakeJobs(TakeEntries):
    """`job`: the JSON body of POST /v1/jobs. `idempotency_key`: that of a body without one."""

    stream = JOBS
    refusal = EventType.job_refused
    payload = b"job"

    async def _handle(self, origin: Origin, entry: Entry) -> None:
        body = entry.fields.get(b"job")
        if body is None:
            await self._set_aside(origin, entry, missing("job"))
        else:
            with self._tracing.accepting(_text(entry.fields, "traceparent"), DOOR):
                await self._intake.take_job(origin, body, _text(entry.fields, "idempotency_key") or None)

    def _beside(self, fields: Fields) -> str:
        return "the payload is all of it"


class TakeDecisions(TakeEntries):
    """`body` with `endpoint`, `webhook-id`, `webhook-timestamp`, `webhook-signature`: a Standard Webhooks envelope."""

    stream = DECISIONS
    refusal = EventType.decision_refused
    payload = b"body"

    async def _handle(self, origin: Origin, entry: Entry) -> None:
        body, endpoint = entry.fields.get(b"body"), entry.fields.get(b"endpoint")
        if body is None or endpoint is None:
            await self._set_aside(origin, entry, missing("body" if body is None else "endpoint"))
            return
        headers = SignatureHeaders(*(_text(entry.fields, f"webhook-{name}") for name in HEADERS))
        signed = SignedDecision(_text(entry.fields, "endpoint"), headers, body, arrival(entry.id))
        await self._intake.take_decision(origin, signed)

    def _beside(self, fields: Fields) -> str:
        names = ("endpoint", *(f"webhook-{name}" for name in HEADERS))
        return ", ".join(f"{name}={_text(fields, name)[:200]!r}" for name in names)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _text(fields: Fields, name: str) -> str:
    """What is not UTF-8 becomes U+FFFD, which no name, number or signature holds."""
    return fields.get(name.encode(), b"").decode("utf-8", "replace")


def _correlation_id(fields: Fields) -> str | None:
    given = scrub(_text(fields, "correlation_id"))[:MOST_CORRELATION_CHARACTERS]
    return given or None


def _all_of(fields: Fields) -> bytes:
    """An entry without its payload, as JSON: each byte is the character of the same number, so that none is lost."""
    return json.dumps({name.decode("latin-1"): value.decode("latin-1") for name, value in fields.items()}).encode()
