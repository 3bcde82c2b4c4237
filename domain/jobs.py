"""Jobs: what a producer asks for, and the states that a job goes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

from signoff.domain.canonical import canonical_json, scrub
from signoff.domain.errors import InvalidRequest

MAX_INPUT_CHARACTERS = 200_000
MAX_LABELS = 50
MAX_NAME_CHARACTERS = 200


class JobStatus(StrEnum):
    waiting = "waiting"
    queued = "queued"
    running = "running"
    awaiting_review = "awaiting_review"
    awaiting_operator = "awaiting_operator"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


STARTED = frozenset({JobStatus.queued, JobStatus.running, JobStatus.awaiting_review, JobStatus.awaiting_operator})
ENDED = frozenset({JobStatus.succeeded, JobStatus.failed, JobStatus.cancelled})
PARKED = frozenset({JobStatus.awaiting_review, JobStatus.awaiting_operator})

TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.waiting: frozenset({JobStatus.queued, JobStatus.cancelled}),
    JobStatus.queued: frozenset({JobStatus.running, JobStatus.awaiting_operator, JobStatus.cancelled}),
    JobStatus.running: frozenset(
        {
            JobStatus.queued,
            JobStatus.awaiting_review,
            JobStatus.awaiting_operator,
            JobStatus.succeeded,
            JobStatus.failed,
            JobStatus.cancelled,
        }
    ),
    JobStatus.awaiting_review: frozenset({JobStatus.queued, JobStatus.cancelled}),
    JobStatus.awaiting_operator: frozenset({JobStatus.queued, JobStatus.cancelled}),
    JobStatus.succeeded: frozenset(),
    JobStatus.failed: frozenset({JobStatus.queued, JobStatus.waiting}),
    JobStatus.cancelled: frozenset(),
}


def sources_of(target: JobStatus) -> list[str]:
    """The states from which `target` may be reached: the guard of the one UPDATE that goes there."""
    return sorted(source for source, targets in TRANSITIONS.items() if target in targets)


@dataclass(frozen=True, slots=True)
class Job:
    """One request to an agent, as the store has it."""

    id: UUID
    thread_id: str
    agent: str
    status: JobStatus
    input: str
    labels: Mapping[str, str]
    submitted_by: str
    request_digest: str
    created_at: datetime
    run_at: datetime
    fence: int
    tries: int
    ran_seconds: float
    cancel_requested: bool
    cancel_requested_by: str | None = None
    result: Mapping[str, Any] | None = None
    error_code: str | None = None
    error_message: str | None = None
    # Where its trace began (W3C), if it is traced.
    traceparent: str | None = None

    def facts(self) -> dict[str, Any]:
        """What a policy's condition sees as `job`."""
        return {
            "id": str(self.id),
            "agent": self.agent,
            "thread": self.thread_id,
            "submitted_by": self.submitted_by,
            "labels": dict(self.labels),
        }


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """A producer's request. `cancel_pending` asks to cancel a job of the same thread that waits for a review."""

    agent: str
    input: str
    thread_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    cancel_pending: bool = False

    def digest(self) -> str:
        """Equal for equal requests: what an idempotency key is bound to."""
        request = [self.agent, self.input, self.thread_id, dict(self.labels), self.cancel_pending]
        return sha256(canonical_json(request)).hexdigest()


SUBMIT_FIELDS = frozenset({"agent", "input", "thread_id", "labels", "idempotency_key", "cancel_pending"})


def parse_submit(body: Any, *, idempotency_key: str | None = None) -> SubmitJob:
    """Reads a request as every door receives it: a JSON object.

    Raises:
        InvalidRequest: naming the field and what was expected.
    """
    if not isinstance(body, dict):
        raise InvalidRequest("a job is a JSON object with at least 'agent' and 'input'")
    unknown = sorted(set(body) - SUBMIT_FIELDS)
    if unknown:
        raise InvalidRequest(f"unknown field {unknown[0]!r}; a job has {', '.join(sorted(SUBMIT_FIELDS))}")
    key = body.get("idempotency_key")
    return SubmitJob(
        agent=_text(body, "agent", MAX_NAME_CHARACTERS),
        input=_text(body, "input", MAX_INPUT_CHARACTERS),
        thread_id=_optional_text(body, "thread_id"),
        labels=_labels(body.get("labels")),
        idempotency_key=_optional_text(body, "idempotency_key") if key is not None else idempotency_key,
        cancel_pending=_flag(body, "cancel_pending"),
    )


def _text(body: Mapping[str, Any], field_name: str, most: int) -> str:
    value = body.get(field_name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"'{field_name}' must be text that is not empty", field=field_name)
    if len(value) > most:
        raise InvalidRequest(f"'{field_name}' is {len(value)} characters long; {most} is the most", field=field_name)
    if scrub(value) != value:
        raise InvalidRequest(f"'{field_name}' holds a NUL or a lone surrogate", field=field_name)
    return value


def _optional_text(body: Mapping[str, Any], field_name: str) -> str | None:
    return None if body.get(field_name) is None else _text(body, field_name, MAX_NAME_CHARACTERS)


def _flag(body: Mapping[str, Any], field_name: str) -> bool:
    value = body.get(field_name, False)
    if not isinstance(value, bool):
        raise InvalidRequest(f"'{field_name}' must be true or false", field=field_name)
    return value


def _labels(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_LABELS:
        raise InvalidRequest(f"'labels' must be an object of at most {MAX_LABELS} names and texts", field="labels")
    return {_text({"labels": name}, "labels", MAX_NAME_CHARACTERS): _text(value, name, 1000) for name in value}
