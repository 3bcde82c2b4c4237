"""How everything stands, for an operator who was woken: counts, the oldest of each, and what holds effects back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.needs import needs
from signoff.infra.postgres.views import iso
from signoff.infra.postgres.views_dead_letters import count_dead_letters

OVERDUE_SECONDS = 60
# Longer than a worker that is alive ever says nothing.
SEEN_SECONDS = 3600

# Of what has not ended, each by an index of its own; of what has, the last day by its submission.
JOBS = """SELECT agent, status, count(*) AS count, min(run_at) FILTER (WHERE status = 'queued') AS due_since FROM (
    SELECT agent, status, run_at FROM signoff.jobs
        WHERE status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator')
    UNION ALL SELECT agent, status, run_at FROM signoff.jobs WHERE status = 'waiting') AS unfinished
GROUP BY agent, status ORDER BY agent, status"""
LAST_DAY = """SELECT agent, status, count(*) AS count FROM signoff.jobs
WHERE created_at > now() - interval '1 day' AND status IN ('succeeded', 'failed', 'cancelled')
GROUP BY agent, status ORDER BY agent, status"""

# How many, since when the oldest, and which that is.
COUNTS = {
    "reviews": """SELECT count(*) AS count, min(created_at) AS oldest_at,
        (SELECT id::text FROM signoff.reviews WHERE status = 'pending' ORDER BY created_at LIMIT 1) AS oldest,
        min(deadline_at) AS next_deadline_at FROM signoff.reviews WHERE status = 'pending'""",
    "doubts": """SELECT count(*) AS count, min(doubt_since) AS oldest_at,
        (array_agg(operation_id ORDER BY doubt_since, operation_id))[1] AS oldest
        FROM signoff.effects WHERE status = 'in_doubt'""",
    "held_refusals": """SELECT count(*) AS count, min(e.created_at) AS oldest_at,
        (array_agg(e.operation_id ORDER BY e.created_at))[1] AS oldest
        FROM signoff.jobs j JOIN signoff.effects e ON e.job_id = j.id
        WHERE j.status = 'awaiting_operator' AND e.status = 'failed' AND e.holds""",
    "alarms": """SELECT count(*) AS count, min(at) AS oldest_at, (array_agg(operation_id ORDER BY at, id))[1] AS oldest
        FROM signoff.alarms WHERE acknowledged_at IS NULL""",
    "settlements": """SELECT count(*) AS count, min(proposed_at) AS oldest_at,
        (array_agg(operation_id ORDER BY proposed_at))[1] AS oldest FROM signoff.settlements WHERE ending IS NULL""",
    "overdue": f"""SELECT count(*) AS count, min(run_at) AS oldest_at, NULL AS oldest FROM signoff.jobs
        WHERE status = 'queued' AND run_at < now() - interval '{OVERDUE_SECONDS} seconds'""",
    "unsent_events": """SELECT count(*) AS count, min(at) AS oldest_at, NULL AS oldest FROM signoff.events
        WHERE published_at IS NULL""",
    "pending_sendings": """SELECT count(*) AS count, min(s.created_at) AS oldest_at, NULL AS oldest
        FROM signoff.sendings s JOIN signoff.subscriptions n ON n.id = s.subscription_id
        WHERE s.status = 'pending' AND n.disabled_at IS NULL""",
}
PAUSES = """SELECT id::text AS pause_id, agent, tool, reason, created_by, created_at FROM signoff.pauses
WHERE ended_at IS NULL ORDER BY created_at"""
CIRCUITS = """SELECT name AS provider, failures, opened_at, open_until, last_error FROM signoff.providers
WHERE opened_at IS NOT NULL ORDER BY opened_at"""
WORKERS = f"""SELECT name, agents, version, started_at, seen_at, drain_requested_at, drained_at, stopped_at,
    extract(epoch FROM now() - seen_at)::float8 AS silent_seconds
FROM signoff.workers WHERE stopped_at IS NULL AND seen_at > now() - interval '{SEEN_SECONDS} seconds'
ORDER BY seen_at DESC"""


async def show_status(conn: AsyncConnection[DictRow], who: Principal) -> dict[str, Any]:
    """Counts by agent and state, what needs a person with the command that settles it, and what is held back.

    Raises RightMissing.
    """
    require_right(who, Right.operate)
    found: dict[str, Any] = {name: (await _rows(conn, sql))[0] for name, sql in COUNTS.items()}
    found["dead_letters"] = await count_dead_letters(conn)
    return {
        "at": (await _rows(conn, "SELECT now() AS at"))[0]["at"],
        "needs": [need.view() for need in needs(found)],
        "jobs": await _rows(conn, JOBS),
        "last_day": await _rows(conn, LAST_DAY),
        **found,
        "pauses": await _rows(conn, PAUSES),
        "circuits": await _rows(conn, CIRCUITS),
        "workers": await _rows(conn, WORKERS),
    }


async def _rows(conn: AsyncConnection[DictRow], sql: str) -> list[dict[str, Any]]:
    rows = await (await conn.execute(sql)).fetchall()
    return [_plain(row) for row in rows]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in row.items()}
