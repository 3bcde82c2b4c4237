"""The event that tells of a new review."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import Job
from signoff.domain.ports import NewReview
from signoff.domain.review_view import review_view
from signoff.domain.reviews import Review, ReviewStatus


def requested(job: Job, new: NewReview, deadline_at: datetime | None, actor: str) -> NewEvent:
    """All that a reviewer's program needs to decide."""
    review = Review(new.id, job.id, job.thread_id, new.interrupt_id, ReviewStatus.pending, tuple(new.items))
    view = review_view(review, agent=job.agent, deadline_at=deadline_at)
    return NewEvent(EventType.review_requested, f"reviews/{new.id}", actor, _told(view), job.id)


def _told(view: Mapping[str, Any]) -> dict[str, Any]:
    """Events are kept for long, one for each parked job: what says nothing is left out, and so are the schemas."""
    configs = [{name: value for name, value in one.items() if name != "args_schema"} for one in view["review_configs"]]
    items = [_without_empty(item) for item in view["items"]]
    return _without_empty({**view, "review_configs": configs, "items": items})


def _without_empty(view: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in view.items() if value not in (None, [])}
