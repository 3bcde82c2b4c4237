"""What is done with a message that came in by a queue: one way for the Redis streams and the Celery tasks.

Whatever can't be taken comes back as an event, with the code and the sender's correlation id. What can't even be read
is set aside as well, with its bytes. When the method returns, either is committed, and the message may be acknowledged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.canonical import scrub
from signoff.domain.errors import (
    Conflict,
    EndpointNotFound,
    Forbidden,
    IdempotencyInProgress,
    Invalid,
    InvalidRequest,
    MalformedJson,
    NotFound,
    RightMissing,
    SignoffError,
    Unauthenticated,
    Unavailable,
)
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import MAX_NAME_CHARACTERS, parse_submit
from signoff.domain.ports import Hints
from signoff.domain.submitting import submit_job
from signoff.infra.json_text import parse_json
from signoff.infra.postgres.poison import PoisonTable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.infra.settings import Settings
from signoff.infra.webhooks.inbound import decide_by_envelope
from signoff.infra.webhooks.signatures import SignatureHeaders

QUEUE = Principal("queue", PrincipalKind.service, rights=frozenset({Right.submit}))
ACTOR = "signoff"
# How long a signed decision may have waited in the stream. Far below how long delivery ids are remembered.
LONGEST_WAIT = timedelta(hours=1)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message came from: a stream and its entry, or a Celery task and its id."""

    source: str
    id: str
    door: str
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """An envelope as it came. `arrived_at` is the queue's own word for when, if it has one."""

    endpoint: str
    headers: SignatureHeaders
    body: bytes
    arrived_at: datetime | None = None


class Intake:
    """Raises Unavailable when the message has to be offered once more; it never refuses one for that."""

    def __init__(self, store: PostgresStore, hints: Hints, settings: Settings) -> None:
        self._store = store
        self._hints = hints
        self._environment = settings.environment
        self._most_bytes = settings.http_max_body_bytes

    async def take_job(self, origin: Origin, body: bytes, idempotency_key: object = None) -> None:
        """Submits the job that the body asks for, in the name of the service `queue`."""
        async with self._answering(origin, EventType.job_refused, body):
            self._check_size(body)
            value = parse_json(body)
            if idempotency_key is not None and isinstance(value, dict) and value.get("idempotency_key") is None:
                value = {**value, "idempotency_key": idempotency_key}
            command = parse_submit(value, idempotency_key=f"{origin.door}:{origin.id}")
            await submit_job(self._store, self._hints, command, await self._submitter(), origin.door)

    async def take_decision(self, origin: Origin, signed: SignedDecision) -> None:
        """Decides as a signed envelope says, under the same checks as over HTTP."""
        async with self._answering(origin, EventType.decision_refused, signed.body):
            self._check_size(signed.body)
            require_endpoint_name(signed.endpoint)
            async with self._store.begin() as tx:
                now = await tx.now()
            await decide_by_envelope(
                self._store,
                self._hints,
                signed.endpoint,
                signed.headers,
                signed.body,
                now=judged_at(signed.arrived_at, now),
                door=origin.door,
                environment=self._environment,
            )

    async def set_aside(self, origin: Origin, kind: EventType, body: bytes, error: SignoffError) -> None:
        """Keeps what can't be read, up to the size limit, and tells its sender."""
        log.warning("message set aside", extra={"source": origin.source, "id": origin.id, "error": error.message})
        async with self._store.begin() as tx:
            kept = body[: self._most_bytes]
            if await PoisonTable(tx.conn).set_aside(origin.source, origin.id, kept, error.message):
                await _tell(tx, origin, kind, error)

    @asynccontextmanager
    async def _answering(self, origin: Origin, kind: EventType, body: bytes) -> AsyncIterator[None]:
        try:
            yield
        except (MalformedJson, BodyTooLarge) as error:
            await self.set_aside(origin, kind, body, error)
        except (Invalid, Unauthenticated, Forbidden, NotFound, Conflict) as error:
            if isinstance(error, IdempotencyInProgress) or type(error) is Conflict:
                # Somebody else is at it: the answer is not known yet.
                raise Unavailable(error.message) from error
            async with self._store.begin() as tx:
                await _tell(tx, origin, kind, error)

    async def _submitter(self) -> Principal:
        """The service `queue`, made when it is first needed; never with more than the right to submit."""
        async with self._store.begin() as tx:
            found = await tx.principals.get(QUEUE.name)
            if found is None:
                await tx.principals.create(QUEUE)
                return QUEUE
        if found.kind is not PrincipalKind.service:
            raise RightMissing(f"{QUEUE.name} is a person here: jobs from queues belong to a service of that name")
        return replace(found, rights=found.rights & QUEUE.rights)

    def _check_size(self, body: bytes) -> None:
        if len(body) > self._most_bytes:
            raise BodyTooLarge(f"the body is {len(body)} bytes long; {self._most_bytes} is the most")


class BodyTooLarge(Invalid):
    """Kept up to the limit only."""

    code = "body_too_large"


def judged_at(arrived_at: datetime | None, now: datetime) -> datetime:
    """The time that a signature's age is judged by: when it reached the queue, if that is believable, else now."""
    if arrived_at is not None and now - LONGEST_WAIT <= arrived_at <= now:
        return arrived_at
    return now


def arrival(entry_id: str) -> datetime | None:
    """When Redis took an entry, by its id; None if the id can't be a time."""
    try:
        return datetime.fromtimestamp(int(entry_id.partition("-")[0]) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def require_endpoint_name(name: str) -> None:
    """Raises EndpointNotFound for what no endpoint can be called."""
    if not name or len(name) > MAX_NAME_CHARACTERS or scrub(name) != name:
        raise EndpointNotFound("there is no endpoint of that name")


def missing(field: str) -> InvalidRequest:
    return InvalidRequest(f"the entry has no field {field!r}")


async def _tell(tx: PostgresTransaction, origin: Origin, kind: EventType, error: SignoffError) -> None:
    data: dict[str, Any] = {
        "code": error.code,
        "message": scrub(error.message),
        "details": json.loads(json.dumps(error.details, default=str)),
        "source": origin.source,
        "entry_id": origin.id,
        "correlation_id": origin.correlation_id,
    }
    await tx.events.append(NewEvent(kind, f"queues/{origin.source}/{origin.id}", ACTOR, data))
