"""Decisions in a signed envelope: one way in for the webhook door, the Redis stream and the Celery task.

    {"review_id": "…", "reviewer": "<person>", "decisions": [ … ]}
    {"review_id": "…", "reviewer": "<person>", "dialect": "<name>", "answer": <that dialect's own body>}

The dialect stands inside, where it is signed; it may be left out where the endpoint has one. The endpoint vouches for
who the reviewer is, if it may speak for them; what the reviewer may decide, our own records say.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, PrincipalKind
from signoff.domain.canonical import scrub
from signoff.domain.deciding import Decided, Delivery, decide_review
from signoff.domain.dialects import DEFAULT, Dialect, dialect_named
from signoff.domain.endpoints import Endpoint, require_voice
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.ports import Hints
from signoff.infra.decisions_in import read_answers
from signoff.infra.json_text import parse_json
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.webhooks.signatures import SignatureHeaders, verify

OWN_FORM = frozenset({"review_id", "reviewer", "decisions"})
OTHER_FORM = frozenset({"review_id", "reviewer", "dialect", "answer"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a signed body says: `answer` is a body of `dialect`, not read yet."""

    review_id: UUID
    reviewer: str
    dialect: Dialect
    answer: Any


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
        EndpointNotFound, SignatureInvalid, MalformedJson, InvalidRequest, EndpointMayNotSpeak, ReviewNotFound,
        DeliveryMismatch, NotAReviewer (also for somebody whom nobody knows), and what `Dialect.read` and
        `decide_review` raise. None changes anything.
    """
    sender = await _sender(store, endpoint, headers, body, now)
    envelope = read_envelope(body, sender.dialect)
    async with store.connection() as conn:
        # Somebody unknown is a person who may do nothing: the refusal does not tell the two apart.
        who = await PrincipalTable(conn).get(envelope.reviewer) or Principal(envelope.reviewer, PrincipalKind.person)
        require_voice(sender, who)
        answers = await read_answers(conn, envelope.review_id, envelope.dialect, envelope.answer, who)
    return await decide_review(
        store,
        hints,
        envelope.review_id,
        answers,
        who,
        door=door,
        environment=environment,
        delivery=Delivery(endpoint, headers.id, hashlib.sha256(body).hexdigest()),
    )


async def _sender(store: PostgresStore, name: str, headers: SignatureHeaders, body: bytes, now: datetime) -> Endpoint:
    """The endpoint that signed the body. Raises EndpointNotFound, SignatureInvalid."""
    async with store.connection() as conn:
        table = EndpointTable(conn)
        endpoint, secrets = await table.live(name)
        signer = secrets[verify([secret.text for secret in secrets], headers, body, now=now)]
        await table.mark_use(signer)
    return endpoint


def read_envelope(body: bytes, spoken: str | None = None) -> Envelope:
    """`spoken` is the dialect of an `answer` that does not name its own. Raises MalformedJson, InvalidRequest."""
    value = parse_json(body)
    if not isinstance(value, dict) or not (OWN_FORM.issuperset(value) or OTHER_FORM.issuperset(value)):
        forms = " or ".join(", ".join(sorted(form)) for form in (OWN_FORM, OTHER_FORM))
        raise InvalidRequest(f"an envelope is an object with {forms}, and nothing else")
    dialect, answer = _answer(value, spoken)
    return Envelope(_review_id(value.get("review_id")), _reviewer(value.get("reviewer")), dialect, answer)


def _answer(value: dict[str, Any], spoken: str | None) -> tuple[Dialect, Any]:
    if not {"dialect", "answer"} & value.keys():
        return DEFAULT, {"decisions": value.get("decisions")}
    if "answer" not in value:
        raise InvalidRequest("'dialect' goes with an 'answer'", field="answer")
    if "dialect" in value:
        return dialect_named(value["dialect"]), value["answer"]
    if spoken is None:
        raise InvalidRequest("an 'answer' needs its 'dialect': the endpoint has none of its own", field="dialect")
    return dialect_named(spoken), value["answer"]


def _review_id(value: Any) -> UUID:
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidRequest("'review_id' must be the id of a review", field="review_id") from None


def _reviewer(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARACTERS or scrub(value) != value:
        raise InvalidRequest("'reviewer' must be the name of a person", field="reviewer")
    return value
