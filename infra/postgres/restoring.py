"""Telling a database that it is a backup: what may have left since then is in doubt, and old workers are fenced off.

A backup does not know what happened after it. So everything that it has yet to do may have been done already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.effect_events import event_of
from signoff.domain.effects import REPEATABLE, EffectStatus
from signoff.domain.errors import InvalidRequest
from signoff.infra.postgres.effects_examined import COLUMNS, effect_of
from signoff.infra.postgres.events import EventTable
from signoff.infra.postgres.waking import wake_paused

# More claims than any job had in the lost time: a worker that outlived it finds its fence gone.
FENCES = 1_000_000
# Who wrote a pause of everything, because a database looked as if it had been restored.
WATCH = "restore watch"

INSERT = """
INSERT INTO signoff.restores (id, since, reason, created_by) VALUES (%(id)s, %(since)s, %(reason)s, %(by)s)
RETURNING created_at
"""
FENCE_OFF = f"""
UPDATE signoff.jobs SET fence = fence + {FENCES}, offered_at = NULL, lease_owner = NULL, lease_until = NULL,
    status = CASE status WHEN 'running' THEN 'queued' ELSE status END
WHERE status NOT IN ('succeeded', 'failed', 'cancelled')
"""
# What the lost time may have sent counts as sent when it began, and once more when it ended: a key's window is counted
# from the first, a provider's quiet period from the last.
DOUBT = """
WITH was AS (
    SELECT e.operation_id, e.status, coalesce(e.class, a.tools -> e.tool ->> 'class', 'opaque') AS class
    FROM signoff.effects e LEFT JOIN signoff.agents a ON a.name = e.agent
    WHERE e.status IN ('planned', 'retry_wait') ORDER BY e.operation_id FOR UPDATE OF e),
moved AS (
    UPDATE signoff.effects e SET
        status = CASE was.class WHEN 'keyed' THEN 'retry_wait' ELSE 'in_doubt' END,
        doubt_since = coalesce(e.doubt_since, %(at)s), retry_at = NULL, waits_for = NULL, offered_at = NULL,
        first_dispatched_at = coalesce(e.first_dispatched_at, %(since)s), last_dispatched_at = %(at)s,
        probe_at = CASE was.class WHEN 'queryable' THEN %(at)s END,
        awaits_operator = was.class NOT IN ('keyed', 'queryable'),
        error_code = 'restored', error_message = %(message)s
    FROM was WHERE e.operation_id = was.operation_id AND NOT was.class = ANY(%(repeatable)s)
    RETURNING e.operation_id, was.status AS was, e.status)
INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason, at)
SELECT operation_id, was, status, %(by)s, %(message)s, %(at)s FROM moved
RETURNING operation_id, to_status
"""
SENT_LATER = "UPDATE signoff.effects SET last_dispatched_at = %(at)s WHERE status IN ('in_doubt', 'dispatched')"
GUARD = """
ALTER TABLE signoff.effects ENABLE TRIGGER doubt_after_restore, ENABLE TRIGGER tell_of_doubt_after_restore
"""
GO_ON = (
    "UPDATE signoff.pauses SET ended_by = %(by)s, ended_at = %(at)s WHERE created_by = %(watch)s AND ended_at IS NULL"
)
OPEN = """
SELECT (SELECT count(*) FROM signoff.effects WHERE status IN ('in_doubt', 'dispatched')) AS in_doubt,
    (SELECT count(*) FROM signoff.effects WHERE status = 'retry_wait' AND error_code = 'restored') AS keyed,
    (SELECT count(*) FROM signoff.reviews WHERE status = 'pending') AS reviews,
    (SELECT count(*) FROM signoff.jobs WHERE status NOT IN ('succeeded', 'failed', 'cancelled')) AS jobs
"""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restored database still has open: jobs, pending reviews, effects in doubt, and those with a key that is
    still good, which are sent again with it."""

    since: datetime
    at: datetime
    jobs: int
    reviews: int
    in_doubt: int
    keyed: int


async def mark_restored(conn: AsyncConnection[DictRow], since: datetime, reason: str, by: str) -> Restored:
    """In a transaction; by the owner of the tables. Twice does no harm: what was settled in between stays settled.

    Raises:
        InvalidRequest: no reason, or a time that is still to come.
    """
    if not reason.strip():
        raise InvalidRequest("a reason is needed: it stays in the record")
    at = await _told(conn, since, reason, by)
    facts = {"since": since, "at": at, "by": by, "watch": WATCH, "repeatable": sorted(REPEATABLE)}
    await conn.execute(FENCE_OFF)
    await conn.execute(SENT_LATER, facts)
    await _doubt(conn, {**facts, "message": message(since, at)})
    await conn.execute(GUARD)
    await conn.execute(GO_ON, facts)
    await wake_paused(conn)
    row = await (await conn.execute(OPEN)).fetchone()
    assert row is not None
    return Restored(since, at, **row)


def message(since: datetime, at: datetime) -> str:
    """What an effect says whose doubt comes from a restore."""
    times = " and ".join(time.isoformat(sep=" ", timespec="seconds") for time in (since, at))
    return f"a backup was restored: it may have happened between {times}"


async def _told(conn: AsyncConnection[DictRow], since: datetime, reason: str, by: str) -> datetime:
    now = await (await conn.execute("SELECT clock_timestamp() AS now")).fetchone()
    assert now is not None
    if since > now["now"]:
        raise InvalidRequest(f"the backup can't be of a time to come: by the database's clock it is {now['now']}")
    parameters = {"id": uuid4(), "since": since, "reason": reason, "by": by}
    row = await (await conn.execute(INSERT, parameters)).fetchone()
    assert row is not None
    at: datetime = row["created_at"]
    return at


async def _doubt(conn: AsyncConnection[DictRow], facts: dict[str, object]) -> None:
    moved = await (await conn.execute(DOUBT, facts)).fetchall()
    doubted = [row["operation_id"] for row in moved if row["to_status"] == EffectStatus.in_doubt]
    cursor = await conn.execute(
        f"SELECT {COLUMNS} FROM signoff.effects e WHERE e.operation_id = ANY(%s) ORDER BY e.operation_id", (doubted,)
    )
    async for row in cursor:
        event = event_of(effect_of(row), EffectStatus.in_doubt, str(facts["by"]), str(facts["message"]))
        assert event is not None
        await EventTable(conn).append(event)
