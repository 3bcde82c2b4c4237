"""Jobs as they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.errors import JobNotFound
from signoff.domain.filters import ANY_AGE, Age
from signoff.domain.jobs import JobStatus
from signoff.infra.postgres.views import Page, Query, iso, may_read_jobs, split_page, storable

BRIEF = """j.id, j.status, j.agent, j.thread_id, j.labels, j.submitted_by, j.door, j.created_at, j.run_at, j.ended_at,
    j.tries, j.cancel_requested_at IS NOT NULL AS cancel_requested, j.error_code, j.error_message,
    ARRAY(SELECT p.id FROM signoff.reviews p WHERE p.job_id = j.id AND p.status = 'pending' ORDER BY p.created_at, p.id)
        AS pending_reviews"""


OF_TOOL = """(EXISTS (SELECT 1 FROM signoff.effects e WHERE e.job_id = j.id AND e.tool = %(tool)s)
    OR EXISTS (SELECT 1 FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
        WHERE r.job_id = j.id AND i.tool = %(tool)s))"""
OF_REVIEWER = """EXISTS (SELECT 1 FROM signoff.reviews a WHERE a.job_id = j.id
    AND a.reviewers @> ARRAY[%(reviewer)s::text])"""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; None and nothing stand for any.

    `tool`: that proposed a call of it, or sent one. `reviewer`: a group, or a person as `@name`, who was asked.
    """

    status: Sequence[JobStatus] = ()
    agent: str | None = None
    thread_id: str | None = None
    submitted_by: str | None = None
    tool: str | None = None
    reviewer: str | None = None
    error: str | None = None
    age: Age = ANY_AGE
    labels: Mapping[str, str] = field(default_factory=dict)

    def apply(self, query: Query) -> None:
        """Raises InvalidRequest."""
        query.add_words("j.status", self.status)
        query.add_equal(
            j__agent=self.agent,
            j__thread_id=self.thread_id,
            j__submitted_by=self.submitted_by,
            j__error_code=self.error,
        )
        query.add_age("j.created_at", self.age)
        query.add_labels("j.labels", self.labels)
        if self.tool is not None:
            query.add(OF_TOOL, tool=storable("tool", self.tool))
        if self.reviewer is not None:
            query.add(OF_REVIEWER, reviewer=storable("reviewer", self.reviewer))


async def list_jobs(
    conn: AsyncConnection[DictRow], wanted: JobFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"jobs", "next"}: newest first, without input and result. Raises InvalidRequest."""
    page = page or Page()
    query = Query()
    may_read_jobs(query, who)
    wanted.apply(query)
    query.add_page(page, "j.created_at", "j.id", UUID)
    sql = f"SELECT {BRIEF} FROM signoff.jobs j WHERE {query.where} ORDER BY j.created_at DESC, j.id DESC LIMIT %(rows)s"
    rows = await (await conn.execute(sql, query.parameters)).fetchall()
    kept, after = split_page(rows, page, "id")
    return {"jobs": [_brief(row) for row in kept], "next": after}


async def show_job(conn: AsyncConnection[DictRow], job_id: UUID, who: Principal) -> dict[str, Any]:
    """One job with its input, result, and the ids of its pending reviews. Raises JobNotFound."""
    query = Query()
    may_read_jobs(query, who)
    query.add_equal(j__id=job_id)
    sql = f"SELECT {BRIEF}, j.input, j.result, j.ran_seconds FROM signoff.jobs j WHERE {query.where}"
    row = await (await conn.execute(sql, query.parameters)).fetchone()
    if row is None:
        raise JobNotFound(f"there is no job {job_id} that you may read")
    return {**_brief(row), "input": row["input"], "result": row["result"], "ran_seconds": row["ran_seconds"]}


async def job_status(conn: AsyncConnection[DictRow], job_id: UUID) -> JobStatus | None:
    """For who polls; looks at nothing else."""
    row = await (await conn.execute("SELECT status FROM signoff.jobs WHERE id = %s", (job_id,))).fetchone()
    return None if row is None else JobStatus(row["status"])


def _brief(row: DictRow) -> dict[str, Any]:
    error = None if row["error_code"] is None else {"code": row["error_code"], "message": row["error_message"]}
    return {
        "job_id": str(row["id"]),
        "status": row["status"],
        "agent": row["agent"],
        "thread_id": row["thread_id"],
        "labels": row["labels"],
        "submitted_by": row["submitted_by"],
        "door": row["door"],
        "created_at": iso(row["created_at"]),
        "run_at": iso(row["run_at"]) if row["status"] == JobStatus.queued else None,
        "ended_at": iso(row["ended_at"]),
        "tries": row["tries"],
        "cancel_requested": row["cancel_requested"],
        "pending_reviews": [str(id_) for id_ in row["pending_reviews"]],
        "error": error,
    }
