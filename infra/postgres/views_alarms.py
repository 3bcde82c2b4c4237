"""Alarms as they are shown: to operators, and to who may read their jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.evidence import AlarmKind
from signoff.domain.filters import ANY_AGE, Age
from signoff.infra.postgres.views import Page, Query, iso, may_read_jobs, split_page

COLUMNS = """a.id, a.kind, a.operation_id, a.job_id, e.agent, e.tool, e.status, a.message, a.at AS created_at,
    a.acknowledged_at, a.acknowledged_by"""


@dataclass(frozen=True, slots=True)
class AlarmFilter:
    """Which alarms; those that nobody has acknowledged, unless `acknowledged` wants those, or None all."""

    acknowledged: bool | None = False
    kind: AlarmKind | None = None
    tool: str | None = None
    job_id: UUID | None = None
    age: Age = ANY_AGE

    def apply(self, query: Query) -> None:
        """Raises InvalidRequest."""
        if self.acknowledged is not None:
            query.add(f"a.acknowledged_at IS {'NOT ' if self.acknowledged else ''}NULL")
        query.add_equal(a__kind=self.kind, e__tool=self.tool, a__job_id=self.job_id)
        query.add_age("a.at", self.age)


async def list_alarms(
    conn: AsyncConnection[DictRow], wanted: AlarmFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"alarms", "next"}: newest first, of jobs that `who` may read. Raises InvalidRequest."""
    page = page or Page()
    query = Query()
    may_read_jobs(query, who)
    wanted.apply(query)
    query.add_page(page, "a.at", "a.id", UUID)
    cursor = await conn.execute(
        f"SELECT {COLUMNS} FROM signoff.alarms a JOIN signoff.effects e USING (operation_id)"
        f" JOIN signoff.jobs j ON j.id = a.job_id WHERE {query.where} ORDER BY a.at DESC, a.id DESC LIMIT %(rows)s",
        query.parameters,
    )
    kept, after = split_page(await cursor.fetchall(), page, "id")
    return {"alarms": [_view(row) for row in kept], "next": after}


def _view(row: DictRow) -> dict[str, Any]:
    return {
        "alarm_id": str(row["id"]),
        **{name: row[name] for name in ("kind", "operation_id", "agent", "tool", "status", "message")},
        "job_id": str(row["job_id"]),
        "at": iso(row["created_at"]),
        "acknowledged_at": iso(row["acknowledged_at"]),
        "acknowledged_by": row["acknowledged_by"],
    }
