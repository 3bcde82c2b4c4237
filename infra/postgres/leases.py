"""Leases: who works on a job, until when, and under which fence. Judged by the database's clock alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.jobs import Job, JobStatus
from signoff.infra.postgres.checkpoints import Head
from signoff.infra.postgres.jobs import COLUMNS, JOB_COLUMNS, job_of

# tries is counted before any work: a job that kills its worker is stopped by it.
CLAIM = f"""
WITH j AS (
    UPDATE signoff.jobs SET status = 'running', fence = fence + 1, tries = tries + 1, lease_owner = %(worker)s,
        lease_until = clock_timestamp() + %(lease)s, claimed_at = clock_timestamp()
    WHERE id = %(due)s AND status = 'queued' AND run_at <= clock_timestamp() AND tries < %(max_tries)s
    RETURNING *)
SELECT {JOB_COLUMNS}, EXISTS (SELECT 1 FROM signoff.reviews r WHERE r.job_id = j.id) AS has_reviews,
    EXISTS (SELECT 1 FROM signoff.standing_approvals s WHERE s.agent = j.agent AND s.revoked_at IS NULL) AS stands,
    t.lineage_root, t.head_checkpoint_id, t.head_job_id, t.head_parked, t.subgraph_heads
FROM j JOIN signoff.threads t ON t.id = j.thread_id
"""

NEXT_DUE = """(SELECT id FROM signoff.jobs WHERE agent = (SELECT agent FROM signoff.jobs WHERE id = %(beside)s)
    AND status = 'queued' AND run_at <= clock_timestamp() AND tries < %(max_tries)s
    ORDER BY run_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)"""

CLAIM_NEXT = CLAIM.replace("%(due)s", NEXT_DUE)

# A lease is renewed at most to the job's wall-clock limit, whatever its worker believes.
RENEW = """
UPDATE signoff.jobs j SET lease_until = least(clock_timestamp() + %(lease)s, greatest(j.lease_until,
    j.claimed_at + make_interval(secs => greatest(mine.limit_seconds - j.ran_seconds, 0)) + %(lease)s))
FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(limits)s::float8[]) AS mine (id, fence, limit_seconds)
WHERE j.id = mine.id AND j.fence = mine.fence AND j.status = 'running'
RETURNING j.id, j.cancel_requested_at IS NOT NULL AS cancel_requested
"""

DUE = """
UPDATE signoff.jobs SET offered_at = clock_timestamp() WHERE id IN (
    SELECT id FROM signoff.jobs WHERE agent = %(agent)s AND status = 'queued' AND run_at <= clock_timestamp()
        AND (offered_at IS NULL OR offered_at < clock_timestamp() - %(backoff)s)
    ORDER BY run_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job under a fresh lease, and where its thread stands.

    `asked_at`, by the process's own monotonic clock, is before the lease began. `stands`: there are standing approvals
    for the agent.
    """

    job: Job
    lineage_root: str
    head: Head | None
    has_reviews: bool
    stands: bool
    asked_at: float

    @property
    def goes_on(self) -> bool:
        """True if the thread's head is this job's own; otherwise the job starts with its input."""
        return self.head is not None and self.head.job_id == self.job.id

    @property
    def may_know_answers(self) -> bool:
        """True if what the run asks may have been decided before: in a review of the job, or where its thread was
        forked from."""
        return self.has_reviews or self.lineage_root != self.job.thread_id


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker renews."""

    job_id: UUID
    fence: int
    limit_seconds: float


async def claim(
    conn: AsyncConnection[DictRow],
    *,
    worker: str,
    lease: timedelta,
    max_tries: int,
    job_id: UUID | None = None,
    beside: UUID | None = None,
) -> Claim | None:
    """Takes the lease of `job_id`, or of the longest due job of the agent that `beside` is a job of.

    One guarded update; None if there is nothing to take.
    """
    parameters = {"worker": worker, "lease": lease, "max_tries": max_tries, "due": job_id, "beside": beside}
    asked_at = time.monotonic()
    row = await (await conn.execute(CLAIM if job_id else CLAIM_NEXT, parameters)).fetchone()
    return None if row is None else _claim_of(row, asked_at)


async def renew(conn: AsyncConnection[DictRow], leases: Sequence[Lease], lease: timedelta) -> Mapping[UUID, bool]:
    """Renews leases; returns those still held, each with whether its cancellation was requested."""
    ordered = sorted(leases, key=lambda held: held.job_id)
    parameters = {
        "ids": [held.job_id for held in ordered],
        "fences": [held.fence for held in ordered],
        "limits": [held.limit_seconds for held in ordered],
        "lease": lease,
    }
    rows = await (await conn.execute(RENEW, parameters)).fetchall()
    return {row["id"]: row["cancel_requested"] for row in rows}


async def take_due(conn: AsyncConnection[DictRow], agent: str, *, backoff: timedelta, limit: int) -> list[UUID]:
    """Due jobs of an agent that nobody has been told of lately; they count as offered now."""
    rows = await (await conn.execute(DUE, {"agent": agent, "backoff": backoff, "limit": limit})).fetchall()
    return [row["id"] for row in rows]


async def agents_with_due_jobs(conn: AsyncConnection[DictRow]) -> list[str]:
    cursor = await conn.execute(
        "SELECT DISTINCT agent FROM signoff.jobs WHERE status = 'queued' AND run_at <= clock_timestamp()"
    )
    return [row["agent"] for row in await cursor.fetchall()]


async def lapsed(conn: AsyncConnection[DictRow], limit: int) -> list[UUID]:
    """Jobs whose worker has not renewed its lease in time."""
    cursor = await conn.execute(
        "SELECT id FROM signoff.jobs WHERE status = 'running' AND lease_until < clock_timestamp()"
        " ORDER BY lease_until LIMIT %s",
        (limit,),
    )
    return [row["id"] for row in await cursor.fetchall()]


async def lock_lapsed(conn: AsyncConnection[DictRow], job_id: UUID) -> Job | None:
    """Locks the job if its lease has still lapsed now that the lock is held."""
    cursor = await conn.execute(
        f"SELECT {COLUMNS} FROM signoff.jobs WHERE id = %s AND status = 'running' AND lease_until < clock_timestamp()"
        " FOR NO KEY UPDATE",
        (job_id,),
    )
    row = await cursor.fetchone()
    return None if row is None else job_of(row)


async def out_of_tries(conn: AsyncConnection[DictRow], max_tries: int, limit: int) -> list[UUID]:
    """Queued jobs that no worker may claim any more."""
    cursor = await conn.execute(
        "SELECT id FROM signoff.jobs WHERE status = 'queued' AND tries >= %s LIMIT %s", (max_tries, limit)
    )
    return [row["id"] for row in await cursor.fetchall()]


async def stranded_threads(conn: AsyncConnection[DictRow], limit: int) -> list[str]:
    """Threads with waiting jobs and no started one."""
    cursor = await conn.execute(
        "SELECT DISTINCT w.thread_id FROM signoff.jobs w WHERE w.status = 'waiting' AND NOT EXISTS ("
        "SELECT 1 FROM signoff.jobs s WHERE s.thread_id = w.thread_id"
        " AND s.status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator')) LIMIT %s",
        (limit,),
    )
    return [row["thread_id"] for row in await cursor.fetchall()]


def _claim_of(row: DictRow, asked_at: float) -> Claim:
    head = None
    if row["head_checkpoint_id"] is not None:
        head = Head(row["head_checkpoint_id"], row["head_job_id"], row["head_parked"], row["subgraph_heads"])
    names = Job.__dataclass_fields__
    job = Job(**{**{name: row[name] for name in names}, "status": JobStatus(row["status"])})
    return Claim(job, row["lineage_root"], head, row["has_reviews"], row["stands"], asked_at)
