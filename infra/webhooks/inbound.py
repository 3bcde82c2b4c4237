"""Decisions in a signed envelope: one way in for the webhook door, the Redis stream and the Celery task.

    {"review_id": "…", "reviewer": "<person>", "decisions": [ … ]}

The endpoint vouches for who the reviewer is; what the reviewer may decide, our own records say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, PrincipalKind
from signoff.domain.canonical import scrub
from signoff.domain.deciding import Decided, Delivery, decide_review
from signoff.domain.decisions import Answer, parse_answers
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.ports import Hints
from signoff.infra.json_text import parse_json
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.webhooks.signatures import SignatureHeaders, verify

FIELDS = frozenset({"review_id", "reviewer", "decisions"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a signed body says."""

    review_id: UUID
    reviewer: str
    answers: Sequence[Answer]


async def decide_by_envelope(
    store: PostgresStore,
    hints: Hints,
    endpoint: str,
    headers: SignatureHeaders,
    body: bytes,
    *,
    now: datetime,
    door: str,
    environment: str,
) -> Decided:
    """Checks the signature over the raw bytes, then decides in the reviewer's name; a delivery id counts once.

    Raises:
        EndpointNotFound, SignatureInvalid, MalformedJson, InvalidRequest, DeliveryMismatch, NotAReviewer (also for
        somebody whom nobody knows), and what `decide_review` raises. None changes anything.
    """
    async with store.connection() as conn:
        secret = await PrincipalTable(conn).endpoint_secret(endpoint)
    verify(secret, headers, body, now=now)
    envelope = read_envelope(body)
    async with store.connection() as conn:
        who = await PrincipalTable(conn).get(envelope.reviewer)
    return await decide_review(
        store,
        hints,
        envelope.review_id,
        envelope.answers,
        # Somebody unknown is a person who may do nothing: the refusal does not tell the two apart.
        who or Principal(envelope.reviewer, PrincipalKind.person),
        door=door,
        environment=environment,
        delivery=Delivery(endpoint, headers.id, hashlib.sha256(body).hexdigest()),
    )


def read_envelope(body: bytes) -> Envelope:
    """Raises MalformedJson, InvalidRequest, and what `parse_answers` raises."""
    value = parse_json(body)
    if not isinstance(value, dict) or not FIELDS.issuperset(value):
        raise InvalidRequest(f"an envelope is an object with {', '.join(sorted(FIELDS))}, and nothing else")
    answers = parse_answers({"decisions": value.get("decisions")})
    return Envelope(_review_id(value.get("review_id")), _reviewer(value.get("reviewer")), answers)


def _review_id(value: Any) -> UUID:
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidRequest("'review_id' must be the id of a review", field="review_id") from None


def _reviewer(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARACTERS or scrub(value) != value:
        raise InvalidRequest("'reviewer' must be the name of a person", field="reviewer")
    return value
