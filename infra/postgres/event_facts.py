"""What an event is about, beyond its own data: the agent of its job, and the calls of its review or effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.events import Event
from signoff.domain.subscriptions import EventFacts

AGENTS = "SELECT id, agent FROM signoff.jobs WHERE id = ANY(%s)"

# A call as it was amended, if it was. What a rule hides is masked in the description already.
_CALLS = """
SELECT i.id AS item_id, i.review_id, coalesce(v.operation_id, i.operation_id) AS operation_id,
    coalesce(v.tool, i.tool) AS tool, coalesce(v.rule, i.rule) AS rule,
    coalesce(v.reviewers, i.reviewers) || coalesce(i.escalated_to, '{}') || coalesce(i.assigned_to, '{}') AS groups,
    coalesce(v.description, i.description) AS description, r.deadline_at
FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
LEFT JOIN signoff.revisions v ON v.item_id = i.id AND v.revision = i.revision
"""
OF_REVIEWS = _CALLS + "WHERE i.review_id = ANY(%s) ORDER BY i.review_id, i.ordinal"
OF_OPERATIONS = _CALLS + "WHERE i.operation_id = ANY(%(ids)s) OR v.operation_id = ANY(%(ids)s)"
EFFECTS = "SELECT operation_id, tool, rule FROM signoff.effects WHERE operation_id = ANY(%s)"

Rows = Sequence[DictRow]


async def facts_of(conn: AsyncConnection[DictRow], events: Sequence[Event]) -> Mapping[UUID, EventFacts]:
    """The facts of each event, by its id; of what is not there any more, none."""
    jobs = {event.job_id for event in events if event.job_id is not None}
    reviews = {id_ for event in events if (id_ := _review_id(event)) is not None}
    operations = {name for event in events if (name := _operation_id(event)) is not None}
    agents = {row["id"]: row["agent"] for row in await _rows(conn, AGENTS, jobs)}
    calls = await _rows(conn, OF_REVIEWS, reviews)
    effects = await _effects(conn, operations)
    return {
        event.id: _facts(
            event,
            agents.get(event.job_id),
            [row for row in calls if row["review_id"] == _review_id(event)] or effects.get(_operation_id(event), []),
        )
        for event in events
    }


async def _effects(conn: AsyncConnection[DictRow], operations: set[str]) -> Mapping[str | None, list[DictRow]]:
    """Of effects that nobody was asked about, tool and rule alone."""
    if not operations:
        return {}
    asked = await (await conn.execute(OF_OPERATIONS, {"ids": sorted(operations)})).fetchall()
    plain = await _rows(conn, EFFECTS, operations)
    found: dict[str | None, list[DictRow]] = {}
    for row in [*asked, *plain]:
        found.setdefault(row["operation_id"], []).append(row)
    return found


async def _rows(conn: AsyncConnection[DictRow], sql: str, ids: set[Any]) -> Rows:
    return await (await conn.execute(sql, (sorted(ids),))).fetchall() if ids else []


def _facts(event: Event, agent: str | None, calls: Rows) -> EventFacts:
    """Of an event that tells of one item, that item's; and whom it asks, where the event says so itself."""
    own = [call for call in calls if str(call.get("item_id")) == event.data.get("item_id")] or calls
    return EventFacts(
        agent=agent,
        groups=_asked(event) or frozenset(group for call in own for group in call.get("groups") or ()),
        rules=frozenset(call["rule"] for call in own if call["rule"]),
        tools=tuple(dict.fromkeys(call["tool"] for call in own)),
        descriptions=tuple(text for call in own if (text := call.get("description"))),
        review_id=_review_id(event),
        job_id=event.job_id,
        deadline_at=own[0].get("deadline_at") if own else None,
    )


def _asked(event: Event) -> frozenset[str]:
    value = event.data.get("reviewers")
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _review_id(event: Event) -> UUID | None:
    value = event.data.get("review_id")
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _operation_id(event: Event) -> str | None:
    value = event.data.get("operation_id")
    return value if isinstance(value, str) else None
