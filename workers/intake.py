"""The two Celery tasks that are the work itself: taken as the entries of the inbound streams are."""

from __future__ import annotations

import json
import logging
from typing import Any

from signoff.domain.canonical import scrub
from signoff.domain.errors import InvalidRequest, SignoffError, Unavailable
from signoff.domain.events import EventType
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.infra.hints import DECIDE_REVIEW, SUBMIT_JOB
from signoff.infra.redis.taking import Intake, Origin, SignedDecision
from signoff.infra.services import Services
from signoff.infra.webhooks.signatures import SignatureHeaders

DOOR = "celery"

log = logging.getLogger(__name__)


async def submit_job(
    services: Services, task_id: str, body: Any, idempotency_key: Any = None, traceparent: str | None = None
) -> None:
    """Takes a job: `body` is that of POST /v1/jobs, as an object or as its JSON text.

    Raises:
        Unavailable: nothing was decided about it; offer it again.
    """
    intake = Intake(services.store, services.hints, services.settings)
    origin = _origin(SUBMIT_JOB, task_id)
    raw = _bytes(body)
    try:
        with services.tracing.accepting(traceparent, DOOR):
            await intake.take_job(origin, raw, idempotency_key)
    except Unavailable:
        raise
    except Exception as error:
        await _give_up(intake, origin, EventType.job_refused, raw, error)


async def decide_review(services: Services, task_id: str, endpoint: Any, headers: Any, body: Any) -> None:
    """Takes a signed decision. Its signature is judged by the time now: nothing tells when a task was sent.

    Raises:
        Unavailable: nothing was decided about it; offer it again.
    """
    intake = Intake(services.store, services.hints, services.settings)
    origin = _origin(DECIDE_REVIEW, task_id)
    raw = _bytes(body)
    try:
        if not (isinstance(endpoint, str) and isinstance(headers, dict) and isinstance(body, str)):
            error = InvalidRequest("a decision is an endpoint's name, an object of headers, and the body as text")
            await intake.set_aside(origin, EventType.decision_refused, raw, error)
            return
        await intake.take_decision(origin, SignedDecision(endpoint, _signature(headers), raw))
    except Unavailable:
        raise
    except Exception as error:
        await _give_up(intake, origin, EventType.decision_refused, raw, error)


async def _give_up(intake: Intake, origin: Origin, kind: EventType, raw: bytes, error: Exception) -> None:
    """A task that fails is gone from Celery: its bytes must not be."""
    log.exception("task not taken", extra={"task": origin.source, "id": origin.id})
    await intake.set_aside(origin, kind, raw, SignoffError(f"{type(error).__name__}: {error}"))


def _origin(task: str, task_id: str) -> Origin:
    known = scrub(str(task_id))[: MAX_NAME_CHARACTERS // 2]
    return Origin(task, known, DOOR, known)


def _bytes(body: Any) -> bytes:
    """What is no UTF-8 stays so: reading it refuses it."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _signature(headers: dict[Any, Any]) -> SignatureHeaders:
    given = {str(name).lower(): value for name, value in headers.items() if isinstance(value, str)}
    return SignatureHeaders(*(given.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")))
