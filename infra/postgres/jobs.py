"""Jobs in Postgres: each transition one guarded statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.errors import LeaseLost
from signoff.domain.events import NewEvent
from signoff.domain.jobs import ENDED, STARTED, Job, JobStatus, SubmitJob, sources_of
from signoff.infra.postgres.events import TELL, event_parameters
from signoff.infra.postgres.holdbacks import HOLDS_BACK
from signoff.infra.telemetry.tracing import traceparent_of_new_job

COLUMNS = """id, thread_id, agent, status, input, labels, submitted_by, request_digest, created_at, run_at, fence,
    tries, ran_seconds, cancel_requested_at IS NOT NULL AS cancel_requested, cancel_requested_by, result, error_code,
    error_message, traceparent"""

JOB_COLUMNS = ", ".join(f"j.{column.strip()}" for column in COLUMNS.split(","))

INSERT = f"""
INSERT INTO signoff.jobs
    (id, thread_id, agent, status, input, labels, submitted_by, door, idempotency_key, request_digest, traceparent)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING {COLUMNS}
"""

MOVE = f"""
WITH told AS (
UPDATE signoff.jobs SET
    status = %(to)s,
    event_sequence = event_sequence + CASE WHEN %(event_type)s::text IS NULL THEN 0 ELSE 1 END,
    run_at = coalesce(%(run_at)s, clock_timestamp() + %(run_in)s),
    tries = CASE WHEN %(keep_tries)s THEN tries ELSE 0 END,
    offered_at = NULL, lease_owner = NULL, lease_until = NULL,
    -- An operator's retry of a failed job gets the whole wall clock again.
    ran_seconds = CASE status WHEN 'running' THEN ran_seconds + extract(epoch FROM clock_timestamp() - claimed_at)
        WHEN 'failed' THEN 0 ELSE ran_seconds END,
    result = %(result)s, error_code = %(code)s, error_message = %(message)s,
    ended_at = CASE WHEN %(ended)s THEN clock_timestamp() END
WHERE id = %(id)s AND status = ANY(%(sources)s)
RETURNING id, event_sequence),
event AS ({TELL})
SELECT id FROM told
"""

PROMOTE = f"""
UPDATE signoff.jobs SET status = 'queued', run_at = clock_timestamp() WHERE id = (
    SELECT w.id FROM signoff.jobs w WHERE w.thread_id = %(thread)s AND w.status = 'waiting'
        AND NOT EXISTS (SELECT 1 FROM signoff.jobs s WHERE s.thread_id = %(thread)s
            AND s.status IN ({", ".join(f"'{status}'" for status in sorted(STARTED))}))
    ORDER BY w.created_at, w.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
"""


FENCE = f"""
SELECT cancel_requested_at IS NOT NULL AS cancel_requested, cancel_requested_by, clock_timestamp() AS now,
    (SELECT a.policy_digest FROM signoff.agents a WHERE a.name = jobs.agent) AS policy_digest,
    {HOLDS_BACK} AS holds_back
FROM signoff.jobs WHERE id = %s AND fence = %s AND status = 'running' FOR NO KEY UPDATE
"""


@dataclass(frozen=True, slots=True)
class Fenced:
    """A running job whose row is locked under its fence, and the database's time.

    `policy_digest` is that of the policy which the newest worker of its agent has registered. `holds_back` says that
    effects may be held back, whichever: by an active pause, or by a provider that fails.
    """

    job: Job
    now: datetime
    policy_digest: str | None
    holds_back: bool


def job_of(row: DictRow) -> Job:
    return Job(**{**row, "status": JobStatus(row["status"])})


class JobTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def insert(
        self, job_id: UUID, command: SubmitJob, thread_id: str, status: JobStatus, by: str, door: str
    ) -> Job | None:
        labels, digest = Json(dict(command.labels)), command.digest()
        what = (job_id, thread_id, command.agent, status, command.input, labels)
        traceparent = traceparent_of_new_job(job_id, command.agent)
        return await self._one(INSERT, *what, by, door, command.idempotency_key, digest, traceparent)

    async def get(self, job_id: UUID) -> Job | None:
        return await self._one(f"SELECT {COLUMNS} FROM signoff.jobs WHERE id = %s", job_id)

    async def lock(self, job_id: UUID) -> Job | None:
        return await self._one(f"SELECT {COLUMNS} FROM signoff.jobs WHERE id = %s FOR NO KEY UPDATE", job_id)

    async def lock_started(self, thread_id: str) -> Job | None:
        sql = f"SELECT {COLUMNS} FROM signoff.jobs WHERE thread_id = %s AND status = ANY(%s) FOR NO KEY UPDATE"
        return await self._one(sql, thread_id, sorted(STARTED))

    async def hold_key(self, by: str, key: str) -> bool:
        cursor = await self._conn.execute(
            "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0)) AS got", (f"signoff idempotency {by}\n{key}",)
        )
        row = await cursor.fetchone()
        return row is not None and bool(row["got"])

    async def by_key(self, by: str, key: str) -> Job | None:
        return await self._one(
            f"SELECT {COLUMNS} FROM signoff.jobs WHERE submitted_by = %s AND idempotency_key = %s", by, key
        )

    async def fence(self, job: Job) -> Fenced:
        """The first statement of every fenced transaction: locks the running job by id and fence.

        Raises:
            LeaseLost: another worker has it, or it is no longer running.
        """
        row = await (await self._conn.execute(FENCE, (job.id, job.fence))).fetchone()
        if row is None:
            gone = f"the lease of job {job.id} under fence {job.fence} is gone"
            raise LeaseLost(gone, job_id=str(job.id), fence=job.fence)
        by: str | None = row["cancel_requested_by"]
        locked = replace(job, cancel_requested=row["cancel_requested"], cancel_requested_by=by)
        return Fenced(locked, row["now"], row["policy_digest"], row["holds_back"])

    async def move(
        self,
        job_id: UUID,
        to: JobStatus,
        *,
        run_in: timedelta | None = None,
        run_at: datetime | None = None,
        keep_tries: bool = False,
        result: Mapping[str, Any] | None = None,
        error: tuple[str, str] | None = None,
        event: NewEvent | None = None,
    ) -> bool:
        code, message = error or (None, None)
        parameters = {
            "id": job_id,
            "to": to,
            "sources": sources_of(to),
            "run_in": run_in or timedelta(),
            "run_at": run_at,
            "keep_tries": keep_tries,
            "result": None if result is None else Json(result),
            "code": code,
            "message": message,
            "ended": to in ENDED,
            **event_parameters(event),
        }
        cursor = await self._conn.execute(MOVE, parameters)
        return await cursor.fetchone() is not None

    async def hurry(self, job_id: UUID) -> None:
        await self._conn.execute(
            "UPDATE signoff.jobs SET run_at = least(run_at, clock_timestamp()), offered_at = NULL"
            " WHERE id = %s AND status = 'queued'",
            (job_id,),
        )

    async def request_cancel(self, job_id: UUID, by: str) -> None:
        await self._conn.execute(
            "UPDATE signoff.jobs SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),"
            " cancel_requested_by = coalesce(cancel_requested_by, %s) WHERE id = %s",
            (by, job_id),
        )

    async def promote_waiting(self, thread_id: str) -> UUID | None:
        row = await (await self._conn.execute(PROMOTE, {"thread": thread_id})).fetchone()
        return None if row is None else row["id"]

    async def _one(self, sql: str, *parameters: object) -> Job | None:
        row = await (await self._conn.execute(sql, parameters)).fetchone()
        return None if row is None else job_of(row)
