"""Standing approvals in Postgres. Each read brings the creators as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.standing import StandingApproval
from signoff.domain.verdicts import Verdict
from signoff.infra.postgres.principals import principal_of
from signoff.infra.postgres.views import Query, may_read_jobs

SELECT = """
SELECT s.id, s.agent, s.tool, s.verdict, s.condition, s.job_id, s.thread_id, s.expires_at, s.reason, s.created_at,
    s.revoked_at, signoff.principal(s.created_by) AS created_by
FROM signoff.standing_approvals s
"""

INSERT = """
INSERT INTO signoff.standing_approvals
    (id, agent, tool, verdict, condition, job_id, thread_id, expires_at, reason, created_by, created_at)
VALUES (%(id)s, %(agent)s, %(tool)s, %(verdict)s, %(condition)s, %(job_id)s, %(thread_id)s, %(expires_at)s, %(reason)s,
    %(created_by)s, %(created_at)s)
"""


class StandingTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def add(self, approval: StandingApproval) -> None:
        names = ("id", "agent", "tool", "verdict", "condition", "job_id", "thread_id", "expires_at", "reason")
        values = {name: getattr(approval, name) for name in (*names, "created_at")}
        await self._conn.execute(INSERT, {**values, "created_by": approval.created_by.name})

    async def get(self, standing_id: UUID) -> StandingApproval | None:
        cursor = await self._conn.execute(SELECT + "WHERE s.id = %s", (standing_id,))
        row = await cursor.fetchone()
        return None if row is None else standing_of(row)

    async def revoke(self, standing_id: UUID, by: str) -> bool:
        cursor = await self._conn.execute(
            "UPDATE signoff.standing_approvals SET revoked_at = clock_timestamp(), revoked_by = %s"
            " WHERE id = %s AND revoked_at IS NULL",
            (by, standing_id),
        )
        return cursor.rowcount == 1

    async def applicable(
        self, agent: str, tool: str | None, job_id: UUID, thread_id: str
    ) -> Sequence[StandingApproval]:
        query = Query()
        query.add("s.revoked_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())")
        query.add("(s.job_id IS NULL OR s.job_id = %(job)s)", job=job_id)
        query.add("(s.thread_id IS NULL OR s.thread_id = %(thread)s)", thread=thread_id)
        query.add_equal(s__agent=agent, s__tool=tool)
        sql = f"{SELECT} WHERE {query.where} ORDER BY s.created_at, s.id"
        return [standing_of(row) for row in await (await self._conn.execute(sql, query.parameters)).fetchall()]

    async def agent_within(self, who: Principal, job_id: UUID | None, thread_id: str | None) -> str | None:
        query = Query()
        may_read_jobs(query, who)
        query.add_equal(j__id=job_id, j__thread_id=thread_id)
        sql = f"SELECT j.agent FROM signoff.jobs j WHERE {query.where} LIMIT 1"
        row = await (await self._conn.execute(sql, query.parameters)).fetchone()
        return None if row is None else row["agent"]


def standing_of(row: DictRow) -> StandingApproval:
    read = {"verdict": Verdict(row["verdict"]), "created_by": principal_of(row["created_by"])}
    return StandingApproval(**{**row, **read})
