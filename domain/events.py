"""Events: CloudEvents 1.0, type `signoff.<noun>.<past verb>.v1`, written in the transaction that they tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class EventType(StrEnum):
    job_accepted = "signoff.job.accepted.v1"
    job_held = "signoff.job.held.v1"
    job_succeeded = "signoff.job.succeeded.v1"
    job_failed = "signoff.job.failed.v1"
    job_cancelled = "signoff.job.cancelled.v1"
    job_retried = "signoff.job.retried.v1"
    job_forked = "signoff.job.forked.v1"
    job_repaired = "signoff.job.repaired.v1"
    review_requested = "signoff.review.requested.v1"
    review_approved = "signoff.review.approved.v1"
    item_decided = "signoff.item.decided.v1"
    review_amended = "signoff.review.amended.v1"
    review_claimed = "signoff.review.claimed.v1"
    review_released = "signoff.review.released.v1"
    review_reassigned = "signoff.review.reassigned.v1"
    review_commented = "signoff.review.commented.v1"
    review_reminded = "signoff.review.reminded.v1"
    review_escalated = "signoff.review.escalated.v1"
    review_decided = "signoff.review.decided.v1"
    review_expired = "signoff.review.expired.v1"
    review_cancelled = "signoff.review.cancelled.v1"
    review_superseded = "signoff.review.superseded.v1"
    decision_refused = "signoff.decision.refused.v1"
    job_refused = "signoff.job.refused.v1"
    effect_succeeded = "signoff.effect.succeeded.v1"
    effect_failed = "signoff.effect.failed.v1"
    effect_doubted = "signoff.effect.doubted.v1"
    effect_died = "signoff.effect.died.v1"
    effect_alarmed = "signoff.effect.alarmed.v1"
    effect_revoked = "signoff.effect.revoked.v1"
    effect_settled = "signoff.effect.settled.v1"
    standing_created = "signoff.standing.created.v1"
    standing_revoked = "signoff.standing.revoked.v1"
    provider_opened = "signoff.provider.opened.v1"
    provider_closed = "signoff.provider.closed.v1"
    subscription_disabled = "signoff.subscription.disabled.v1"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What happened, to what, by whom. The store adds id, sequence and time."""

    type: EventType
    subject: str
    actor: str
    data: Mapping[str, Any]
    job_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event as stored. `sequence` increases within its job; `id` is what receivers drop repeats by."""

    id: UUID
    type: str
    subject: str
    actor: str
    data: Mapping[str, Any]
    job_id: UUID | None
    sequence: int
    at: datetime
    cursor: str


def to_cloudevent(event: Event, *, source: str = "/signoff") -> dict[str, Any]:
    """The event in CloudEvents 1.0 JSON form; `sequence` as in the Sequence extension, a decimal text."""
    return {
        "specversion": "1.0",
        "id": str(event.id),
        "source": source,
        "type": event.type,
        "subject": event.subject,
        "time": event.at.isoformat(),
        "datacontenttype": "application/json",
        "sequence": str(event.sequence),
        "data": {**event.data, "actor": event.actor},
    }
