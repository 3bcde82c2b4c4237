"""Standing approvals as they are shown."""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right
from signoff.infra.postgres.views import Page, Query, iso, split_page

SELECT = """
SELECT s.id, s.agent, s.tool, s.verdict, s.condition, s.job_id, s.thread_id, s.expires_at, s.reason, s.created_by,
    s.created_at, s.revoked_at, s.revoked_by, CASE WHEN s.revoked_at IS NOT NULL THEN 'revoked'
        WHEN s.expires_at <= clock_timestamp() THEN 'expired' ELSE 'active' END AS state
FROM signoff.standing_approvals s
"""

ACTIVE = "s.revoked_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())"


class StandingState(StrEnum):
    """What has become of it. One for a job or a thread that has ended is active still, and matches nothing more."""

    active = "active"
    expired = "expired"
    revoked = "revoked"


CONDITIONS = {
    StandingState.active: ACTIVE,
    StandingState.expired: "s.revoked_at IS NULL AND s.expires_at <= clock_timestamp()",
    StandingState.revoked: "s.revoked_at IS NOT NULL",
}


async def list_standing(
    conn: AsyncConnection[DictRow], state: StandingState | None, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"standing_approvals", "next"}: newest first, those that `who` gave; all for operators and who may give some.

    Raises InvalidRequest.
    """
    page = page or Page()
    query = Query()
    if who.revoked or not who.rights & {Right.operate, Right.standing}:
        query.add("s.created_by = %(who)s", who=None if who.revoked else who.name)
    if state is not None:
        query.add(CONDITIONS[state])
    query.add_page(page, "s.created_at", "s.id", UUID)
    sql = f"{SELECT} WHERE {query.where} ORDER BY s.created_at DESC, s.id DESC LIMIT %(rows)s"
    rows = await (await conn.execute(sql, query.parameters)).fetchall()
    kept, after = split_page(rows, page, "id")
    return {"standing_approvals": [_view(row) for row in kept], "next": after}


async def show_standing(conn: AsyncConnection[DictRow], standing_id: UUID) -> dict[str, Any]:
    """One that is known to be there, and to be for who asks."""
    row = await (await conn.execute(f"{SELECT} WHERE s.id = %s", (standing_id,))).fetchone()
    assert row is not None
    return _view(row)


def _view(row: DictRow) -> dict[str, Any]:
    return {
        "standing_id": str(row["id"]),
        "state": row["state"],
        "agent": row["agent"],
        "tool": row["tool"],
        "verdict": row["verdict"],
        "when": row["condition"],
        "job_id": row["job_id"] and str(row["job_id"]),
        "thread_id": row["thread_id"],
        "expires_at": iso(row["expires_at"]),
        "reason": row["reason"],
        "created_by": row["created_by"],
        "created_at": iso(row["created_at"]),
        "revoked_by": row["revoked_by"],
        "revoked_at": iso(row["revoked_at"]),
    }
