"""Subscriptions: which events go where. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from signoff.domain import tool_patterns
from signoff.domain.canonical import scrub
from signoff.domain.errors import InvalidRequest
from signoff.domain.events import EventType
from signoff.domain.notices import NOTIFYING, check_template
from signoff.domain.wording import did_you_mean

MAX_VALUES = 50
MAX_VALUE_CHARACTERS = 200
MAX_TARGET_CHARACTERS = 2000
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
FIELDS = frozenset({"name", "kind", "target", "event_types", "filter", "template", "allow_private", "after"})


class SubscriptionKind(StrEnum):
    webhook = "webhook"
    mail = "mail"
    slack = "slack"


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What filters and notifications ask about an event, beyond its own data."""

    agent: str | None = None
    groups: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    review_id: UUID | None = None
    job_id: UUID | None = None
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Every field that is given must match, by any of its values; `tool` takes patterns."""

    agent: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rule: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()

    def matches(self, facts: EventFacts) -> bool:
        agents = {facts.agent} if facts.agent else set()
        return (
            _meets(self.agent, agents)
            and _meets(self.groups, facts.groups)
            and _meets(self.rule, facts.rules)
            and (not self.tool or any(tool_patterns.matches(p, tool) for p in self.tool for tool in facts.tools))
        )

    def view(self) -> dict[str, list[str]]:
        """The fields that are given."""
        given = {"agent": self.agent, "groups": self.groups, "rule": self.rule, "tool": self.tool}
        return {name: list(values) for name, values in given.items() if values}


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """What is asked for; `after` is a cursor of the events, None for from now on."""

    name: str
    kind: SubscriptionKind
    target: str
    event_types: tuple[str, ...]
    filter: EventFilter = field(default_factory=EventFilter)
    template: str | None = None
    allow_private: bool = False
    after: str | None = None


def matches_type(patterns: Sequence[str], event_type: str) -> bool:
    return any(fnmatchcase(event_type, pattern) for pattern in patterns)


def parse_subscription(raw: Any) -> NewSubscription:
    """What a request asks for; the form of its target is for whoever knows the kind of address.

    Raises:
        InvalidRequest: naming the field.
    """
    if not isinstance(raw, dict) or not FIELDS.issuperset(raw):
        raise InvalidRequest(f"an object with {', '.join(sorted(FIELDS))}, and nothing else, is expected")
    kind = _kind(raw.get("kind"))
    return NewSubscription(
        name=_name(raw.get("name")),
        kind=kind,
        target=_text(raw.get("target"), "target", MAX_TARGET_CHARACTERS),
        event_types=_event_types(raw.get("event_types"), kind),
        filter=parse_filter(raw.get("filter")),
        template=_template(raw.get("template"), kind),
        allow_private=_flag(raw.get("allow_private"), "allow_private"),
        after=None if raw.get("after") is None else _text(raw["after"], "after", MAX_VALUE_CHARACTERS),
    )


def parse_filter(raw: Any) -> EventFilter:
    """Raises InvalidRequest."""
    known = ("agent", "groups", "rule", "tool")
    if raw is None:
        return EventFilter()
    if not isinstance(raw, dict) or not set(known).issuperset(raw):
        raise InvalidRequest(f"'filter' must be an object with {', '.join(known)}, and nothing else", field="filter")
    return EventFilter(**{name: _texts(raw[name], f"filter.{name}") for name in raw})


def _meets(wanted: Collection[str], found: Collection[str]) -> bool:
    return not wanted or not set(wanted).isdisjoint(found)


def _kind(value: Any) -> SubscriptionKind:
    try:
        return SubscriptionKind(value)
    except ValueError:
        raise InvalidRequest(f"'kind' must be one of {', '.join(SubscriptionKind)}", field="kind") from None


def _name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InvalidRequest("'name' must be of letters, digits, '.', '_' and '-', 100 at most", field="name")
    return value


def _event_types(value: Any, kind: SubscriptionKind) -> tuple[str, ...]:
    """Unless said, a program gets everything and a person what calls for them."""
    if value is None:
        return ("signoff.*",) if kind is SubscriptionKind.webhook else NOTIFYING
    patterns = _texts(value, "event_types")
    if not patterns:
        raise InvalidRequest("'event_types' must name at least one type", field="event_types")
    for pattern in patterns:
        _check_pattern(pattern)
    return patterns


def _check_pattern(pattern: str) -> None:
    known = [*map(str, EventType), *NOTIFYING]
    if not any(fnmatchcase(kind, pattern) for kind in known):
        raise InvalidRequest(
            f"'event_types': no event is of the type {pattern!r}{did_you_mean(pattern, known)}", field="event_types"
        )


def _template(value: Any, kind: SubscriptionKind) -> str | None:
    if value is None:
        return None
    if kind is SubscriptionKind.webhook:
        raise InvalidRequest("a webhook is sent the event itself: 'template' is for mail and slack", field="template")
    template = _text(value, "template", MAX_TARGET_CHARACTERS)
    check_template(template)
    return template


def _flag(value: Any, name: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"'{name}' must be true or false", field=name)
    return bool(value)


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_VALUES:
        raise InvalidRequest(f"'{name}' must be a list of at most {MAX_VALUES} texts", field=name)
    return tuple(_text(one, name, MAX_VALUE_CHARACTERS) for one in value)


def _text(value: Any, name: str, most: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > most or scrub(value) != value:
        raise InvalidRequest(f"'{name}' must be text of 1 to {most} characters", field=name)
    return value
