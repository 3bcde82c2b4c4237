"""Forks and repairs of threads in Postgres: copies within LangGraph's tables, in the transaction of the act."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from langgraph.checkpoint.base.id import uuid6
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.fork_points import KeptDecisions, NewThread
from signoff.domain.jobs import Job
from signoff.domain.reviews import ALONE, Item
from signoff.infra.postgres.fork_copies import COPY_BLOBS, COPY_CHECKPOINTS, COPY_WRITES, PLACES, RENEW
from signoff.infra.postgres.reviews import SELECT, review_of

NEWEST_PARK = """
SELECT c.checkpoint_id FROM checkpoints c
WHERE c.thread_id = %s AND c.checkpoint_ns = '' AND c.metadata ->> 'job_id' = %s AND EXISTS (
    SELECT FROM checkpoint_writes w WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = ''
        AND w.checkpoint_id = c.checkpoint_id AND w.channel = '__interrupt__')
ORDER BY c.checkpoint_id DESC LIMIT 1
"""

NEW_THREAD = """
INSERT INTO signoff.threads (id, agent, lineage_root, created_by, forked_from, forked_at_checkpoint, keeps_decisions,
    head_checkpoint_id, head_job_id, head_parked, subgraph_heads)
SELECT %(id)s, t.agent, t.lineage_root, t.created_by, t.id, %(checkpoint)s, %(keeps)s, %(checkpoint)s, %(job)s, true,
    %(heads)s
FROM signoff.threads t WHERE t.id = %(source)s
"""

SUPERSEDE = """
WITH closed AS (
    UPDATE signoff.reviews SET status = 'superseded', decided_at = clock_timestamp()
    WHERE job_id = %s AND status = 'pending' AND NOT starts_with(interrupt_id, %s) RETURNING id),
items AS (
    UPDATE signoff.items i SET status = 'superseded' FROM closed
    WHERE i.review_id = closed.id AND i.status = 'open')
SELECT id FROM closed ORDER BY id
"""

# A decision that allowed a call has planned its effect when its review was complete. That an effect of the job itself
# was never sent leaves it to be decided anew.
CARRIED_OVER = f"""
WITH RECURSIVE origins (id, forked_from) AS (
    SELECT id, forked_from FROM signoff.threads WHERE id = %(thread)s
    UNION ALL SELECT t.id, t.forked_from FROM signoff.threads t JOIN origins o ON t.id = o.forked_from)
{SELECT}
JOIN origins o ON o.id = r.thread_id
LEFT JOIN signoff.decisions d ON d.id = i.decision_id
WHERE i.operation_id = ANY(%(operations)s) AND r.status IN ('decided', 'expired')
    AND NOT starts_with(r.interrupt_id, %(alone)s)
    AND ((r.thread_id <> %(thread)s
            AND (SELECT keeps_decisions FROM signoff.threads WHERE id = %(thread)s))
        OR (d.type IN ('approve', 'edit') AND EXISTS (SELECT FROM signoff.effects e
            WHERE e.operation_id = d.operation_id AND (e.job_id <> %(job)s OR e.attempts > 0))))
ORDER BY r.created_at DESC, r.id
"""

# Of what a fork meets in doubt, or dead, under another job it is not told when that is settled.
HELD_FOR_NOTHING = """
WITH RECURSIVE held AS MATERIALIZED (
    SELECT j.id, t.id AS thread_id, t.forked_from FROM signoff.jobs j JOIN signoff.threads t ON t.id = j.thread_id
    WHERE j.status = 'awaiting_operator' AND j.error_code = 'effect_held' AND t.forked_from IS NOT NULL),
origins (job, id, forked_from) AS (
    SELECT id, thread_id, forked_from FROM held
    UNION ALL SELECT o.job, t.id, t.forked_from FROM origins o JOIN signoff.threads t ON t.id = o.forked_from)
SELECT h.id FROM held h WHERE NOT EXISTS (
    SELECT FROM origins o JOIN signoff.effects e ON e.thread_id = o.id
    WHERE o.job = h.id AND (e.status IN ('in_doubt', 'dead') OR (e.status = 'failed' AND e.holds)))
LIMIT %s
"""


class ForkTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def newest_park(self, job: Job) -> str | None:
        row = await (await self._conn.execute(NEWEST_PARK, (job.thread_id, str(job.id)))).fetchone()
        return None if row is None else row["checkpoint_id"]

    async def is_kept(self, job: Job, checkpoint_id: str) -> bool:
        cursor = await self._conn.execute(
            "SELECT FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = '' AND checkpoint_id = %s"
            " AND metadata ->> 'job_id' = %s",
            (job.thread_id, checkpoint_id, str(job.id)),
        )
        return await cursor.fetchone() is not None

    async def pending_review(self, job: Job, checkpoint_id: str) -> UUID | None:
        cursor = await self._conn.execute(
            "SELECT id FROM signoff.reviews WHERE thread_id = %s AND checkpoint_id = %s AND status = 'pending' LIMIT 1",
            (job.thread_id, checkpoint_id),
        )
        row = await cursor.fetchone()
        return None if row is None else row["id"]

    async def begin(self, job: Job, new: NewThread) -> None:
        cursor = await self._conn.execute(PLACES, {"thread": job.thread_id, "checkpoint": new.checkpoint_id})
        places = [(row["checkpoint_ns"], row["checkpoint_id"]) for row in await cursor.fetchall()]
        parameters = {
            "source": job.thread_id,
            "id": new.id,
            "job": new.job_id,
            "job_text": str(new.job_id),
            "checkpoint": new.checkpoint_id,
            "keeps": new.decisions is KeptDecisions.keep,
            "heads": Json({namespace: checkpoint for namespace, checkpoint in places if namespace}),
            "namespaces": [namespace for namespace, _ in places],
            "checkpoints": [checkpoint for _, checkpoint in places],
        }
        for statement in (NEW_THREAD, COPY_CHECKPOINTS, COPY_BLOBS, COPY_WRITES):
            await self._conn.execute(statement, parameters)

    async def renew_head(self, job: Job) -> tuple[str, str] | None:
        new = str(uuid6())
        parameters = {"thread": job.thread_id, "job": job.id, "new": new}
        row = await (await self._conn.execute(RENEW, parameters)).fetchone()
        return None if row is None else (row["old"], new)

    async def supersede_reviews(self, job_id: UUID) -> Sequence[UUID]:
        cursor = await self._conn.execute(SUPERSEDE, (job_id, ALONE))
        return [row["id"] for row in await cursor.fetchall()]

    async def carried_over(self, job: Job, operations: Sequence[str]) -> Sequence[Item]:
        parameters = {"thread": job.thread_id, "job": job.id, "operations": list(operations), "alone": ALONE}
        cursor = await self._conn.execute(CARRIED_OVER, parameters)
        return [review_of([row]).items[0] for row in await cursor.fetchall()]


async def held_for_nothing(conn: AsyncConnection[DictRow], limit: int) -> Sequence[UUID]:
    """Jobs of forks that were held at an effect, where none is left that would hold them."""
    cursor = await conn.execute(HELD_FOR_NOTHING, (limit,))
    return [row["id"] for row in await cursor.fetchall()]
