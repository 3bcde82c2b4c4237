"""What is purged of an effect when its retention is over: what the call said, wherever it stands, and what came back.

Its tombstone stays: operation, digest, outcome, the provider's reference, attempts and history.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

DUE = """
SELECT e.operation_id, e.job_id FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id
WHERE e.retention_seconds IS NOT NULL AND e.purged_at IS NULL
    AND e.ended_at + make_interval(secs => e.retention_seconds) <= clock_timestamp()
    AND j.status IN ('succeeded', 'failed', 'cancelled')
ORDER BY e.ended_at LIMIT %s
"""
# Every form of the call that people of its job were asked about: as it was proposed, edited, or came back to review.
# Locked before the effect, as everywhere.
LOCK_ITEMS = """
WITH named AS (
    SELECT i.id FROM signoff.items i WHERE i.operation_id = %(operation)s
    UNION SELECT v.item_id FROM signoff.revisions v WHERE v.operation_id = %(operation)s
    UNION SELECT d.item_id FROM signoff.effects e JOIN signoff.decisions d ON d.id = e.decision_id
        WHERE e.operation_id = %(operation)s),
called AS (SELECT message_id, call_ordinal FROM signoff.items WHERE id IN (SELECT id FROM named))
SELECT i.id FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
WHERE r.job_id = %(job)s AND (i.message_id, i.call_ordinal) IN (SELECT message_id, call_ordinal FROM called)
ORDER BY i.id FOR NO KEY UPDATE OF i
"""
PURGE_EFFECT = """
UPDATE signoff.effects SET args = NULL, result_type = NULL, result = NULL, changed = NULL, purged_at = clock_timestamp()
WHERE operation_id = %s AND purged_at IS NULL
"""
PURGE_ASIDE = "DELETE FROM signoff.results_aside WHERE operation_id = %s"
PURGE_EVIDENCE = """
UPDATE signoff.evidence SET result_type = NULL, result = NULL, purged_at = clock_timestamp()
WHERE operation_id = %s AND purged_at IS NULL
"""
# What came back even later than that. The table is small: it has a row where a worker had lost its lease.
PURGE_LATE = """
UPDATE signoff.evidence v SET result_type = NULL, result = NULL, purged_at = clock_timestamp()
FROM signoff.effects e WHERE e.operation_id = v.operation_id AND e.purged_at IS NOT NULL AND v.purged_at IS NULL
"""
PURGE_ITEMS = """
UPDATE signoff.items SET args = CASE WHEN args IS NOT NULL THEN '{}'::json END,
    unreadable_args = CASE WHEN unreadable_args IS NOT NULL THEN '' END, description = '', shown = NULL,
    purged_at = clock_timestamp()
WHERE id = ANY(%s) AND purged_at IS NULL
"""
PURGE_REVISIONS = """
UPDATE signoff.revisions SET args = '{}', description = '', shown = NULL, purged_at = clock_timestamp()
WHERE item_id = ANY(%s) AND purged_at IS NULL
"""
PURGE_DECISIONS = """
UPDATE signoff.decisions SET args = NULL, purged_at = clock_timestamp() WHERE item_id = ANY(%s) AND purged_at IS NULL
"""


async def due(conn: AsyncConnection[DictRow], limit: int) -> Sequence[tuple[str, UUID]]:
    """(operation id, job id) of ended effects of ended jobs whose retention is over, oldest first. Not locked."""
    rows = await (await conn.execute(DUE, (limit,))).fetchall()
    return [(row["operation_id"], row["job_id"]) for row in rows]


async def lock_items(conn: AsyncConnection[DictRow], operation_id: str, job_id: UUID) -> Sequence[UUID]:
    """The items that the call ever was in its job. The job is locked; the effect is not yet."""
    rows = await (await conn.execute(LOCK_ITEMS, {"operation": operation_id, "job": job_id})).fetchall()
    return [row["id"] for row in rows]


async def purge(conn: AsyncConnection[DictRow], operation_id: str, items: Sequence[UUID]) -> None:
    """Takes away what the call said and what came back. The effect is locked, and over. The effect comes first: only
    then does the database let its append-only rows be purged."""
    for statement in (PURGE_EFFECT, PURGE_ASIDE, PURGE_EVIDENCE):
        await conn.execute(statement, (operation_id,))
    for statement in (PURGE_ITEMS, PURGE_REVISIONS, PURGE_DECISIONS):
        await conn.execute(statement, (list(items),))


async def purge_late(conn: AsyncConnection[DictRow]) -> None:
    """Takes away what came back after its effect was purged."""
    await conn.execute(PURGE_LATE)
