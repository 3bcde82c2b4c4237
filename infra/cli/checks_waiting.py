"""What the doctor asks Postgres about that waits for somebody: for a worker to start, or for an operator to look."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.infra.cli.checks import Check, failed, judged, passed

MOST_ERROR_CHARACTERS = 200

# An agent with a job under a live lease has a worker, which may be busy: that is a backlog and nothing wrong.
UNTAKEN = """
SELECT j.agent, count(*) AS count, extract(epoch FROM clock_timestamp() - min(j.run_at))::float8 AS seconds,
    (SELECT count(*) FROM signoff.workers w WHERE j.agent = ANY (w.agents) AND w.stopped_at IS NULL
        AND w.drain_requested_at IS NULL AND w.seen_at > clock_timestamp() - interval '1 minute') AS live
FROM signoff.jobs j
WHERE j.status = 'queued' AND j.run_at < clock_timestamp() - make_interval(secs => %s) AND j.offered_at >= j.run_at
GROUP BY j.agent HAVING NOT EXISTS (SELECT FROM signoff.jobs r WHERE r.agent = j.agent AND r.status = 'running'
    AND r.lease_until > clock_timestamp())
ORDER BY j.agent
"""
NEWEST_POISON = """
SELECT position, stream, to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"') AS received, error,
    (SELECT count(*) FROM signoff.poison_messages WHERE settlement IS NULL) AS count
FROM signoff.poison_messages WHERE settlement IS NULL ORDER BY position DESC LIMIT 1
"""


async def check_workers(conn: AsyncConnection[DictRow], patience_seconds: float) -> Check:
    """Jobs that were offered to the workers of their agent, none of which works on anything."""
    rows = await (await conn.execute(UNTAKEN, (patience_seconds,))).fetchall()
    late = [
        f"{row['agent']}: {row['count']} due, the oldest for {row['seconds']:.0f} s, {row['live']} workers serve it"
        for row in rows
    ]
    remedy = "is a worker running that serves the agent, and does it reach the database?"
    return judged("workers", not rows, "; ".join(late) or "none is missing", remedy)


async def check_poison(conn: AsyncConnection[DictRow]) -> Check:
    """Messages that were set aside as unreadable, until an operator has settled them."""
    row = await (await conn.execute(NEWEST_POISON)).fetchone()
    if row is None:
        return passed("poison", "no message was set aside")
    error = " ".join(row["error"].split())[:MOST_ERROR_CHARACTERS]
    found = f"{row['count']} set aside; the newest of {row['stream']}, {row['received']}: {error}"
    letter = f"`signoff dead-letters show message:{row['position']}`"
    return failed("poison", found, f"{letter}, then requeue it, corrected if need be, or discard it")
