"""What is sent: the event itself to programs, a notification to people."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from signoff.domain.events import Event, to_cloudevent
from signoff.domain.notices import DEFAULTS, OTHER, clean, render, subject_of
from signoff.domain.subscriptions import EventFacts, SubscriptionKind
from signoff.infra.postgres.subscriptions import Subscription

NOTHING = "–"


def body_of(subscription: Subscription, event: Event, facts: EventFacts, public_url: str | None) -> str:
    """JSON text, the same for every attempt."""
    if subscription.kind is SubscriptionKind.webhook:
        return json.dumps(to_cloudevent(event))
    template = subscription.template or DEFAULTS.get(event.type, OTHER)
    if subscription.kind is SubscriptionKind.slack:
        return json.dumps({"text": _notice(template, event, facts, public_url, _for_slack)})
    text = _notice(template, event, facts, public_url, str)
    return json.dumps({"subject": subject_of(text), "text": text})


def _notice(
    template: str, event: Event, facts: EventFacts, public_url: str | None, escape: Callable[[str], str]
) -> str:
    descriptions = [escape(clean(text)) for text in facts.descriptions]
    values = {
        "event": event.type,
        "review_id": _id(facts.review_id),
        "tool": ", ".join(facts.tools) or NOTHING,
        "job_id": _id(facts.job_id),
        "agent": facts.agent or NOTHING,
        "deadline_at": _moment(facts.deadline_at),
        "link": _link(facts, public_url),
    }
    escaped = {name: escape(clean(value)) for name, value in values.items()}
    return render(template, {**escaped, "description": "\n".join(descriptions) or NOTHING})


def _link(facts: EventFacts, public_url: str | None) -> str:
    """Where it is shown, with a token of the reader's own; nothing is ever decided by following it."""
    base = (public_url or "").rstrip("/")
    if facts.review_id is not None:
        return f"{base}/v1/reviews/{facts.review_id}"
    return f"{base}/v1/jobs/{facts.job_id}" if facts.job_id is not None else base or NOTHING


def _for_slack(text: str) -> str:
    """So that no text of a model's can be a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _id(value: UUID | None) -> str:
    return NOTHING if value is None else str(value)


def _moment(at: datetime | None) -> str:
    return "none" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
