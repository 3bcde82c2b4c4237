"""Effects that something held back are made due again, with their jobs, when it does so no more.

Whatever is locked is passed over: it is being looked at, or will be found a moment later.
"""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.holding import LOOKS_PER_SECOND
from signoff.infra.postgres.holdbacks import COVERS

FREE_OF_PAUSES = f"e.waits_for = 'pause' AND NOT EXISTS (SELECT FROM signoff.pauses p WHERE {COVERS})"
FREE_OF_CIRCUITS = """e.waits_for = 'circuit' AND EXISTS (SELECT FROM signoff.providers v
    WHERE v.name = e.provider AND v.opened_at IS NULL)"""

# A job that runs now is left: it will be queued with the time at which it began to wait, and is found then.
# A job that waits for something sooner, too, goes on at that.
WAKE = """
WITH found AS MATERIALIZED (
    SELECT e.operation_id, e.job_id, e.alone, e.created_at, e.retry_at
    FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id
    WHERE {free} AND (e.alone OR j.status = 'queued')
    ORDER BY e.job_id, e.operation_id FOR NO KEY UPDATE OF j, e SKIP LOCKED),
numbered AS (
    SELECT operation_id, job_id, alone, retry_at,
        (row_number() OVER (ORDER BY created_at, operation_id) - 1)::float8 AS number FROM found),
timed AS MATERIALIZED (
    SELECT operation_id, job_id, alone, retry_at, began.at
        + make_interval(secs => CASE WHEN %(rate)s::float8 IS NULL THEN 0 ELSE number / %(rate)s::float8 END) AS at
    FROM numbered, (SELECT clock_timestamp() AS at OFFSET 0) AS began),
woken AS (
    UPDATE signoff.effects e SET retry_at = t.at, waits_for = NULL, offered_at = NULL
    FROM timed t WHERE e.operation_id = t.operation_id RETURNING e.operation_id),
hurried AS (
    UPDATE signoff.jobs j SET offered_at = NULL,
        run_at = CASE WHEN j.run_at < first.was THEN least(j.run_at, first.at) ELSE first.at END
    FROM (SELECT job_id, min(at) AS at, min(retry_at) AS was FROM timed WHERE NOT alone GROUP BY job_id) AS first
    WHERE j.id = first.job_id AND j.status = 'queued')
SELECT count(*) AS count FROM woken
"""
WAKE_PAUSED = WAKE.format(free=FREE_OF_PAUSES)
WAKE_CIRCUIT = WAKE.format(free=FREE_OF_CIRCUITS)


async def wake_paused(conn: AsyncConnection[DictRow], per_second: float | None = None) -> int:
    """What no pause holds back any more: so many a second, or all at once. Returns how many effects."""
    return await _wake(conn, WAKE_PAUSED, per_second)


async def wake_circuit(conn: AsyncConnection[DictRow]) -> int:
    """What waits for a circuit that is closed. Returns how many effects."""
    return await _wake(conn, WAKE_CIRCUIT, LOOKS_PER_SECOND)


async def _wake(conn: AsyncConnection[DictRow], sql: str, per_second: float | None) -> int:
    row = await (await conn.execute(sql, {"rate": per_second})).fetchone()
    assert row is not None
    return int(row["count"])
