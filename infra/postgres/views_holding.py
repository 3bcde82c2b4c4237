"""What holds effects back, as operators see it: pauses with what waits on each, and providers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import PauseNotFound
from signoff.infra.postgres.views import Page, Query, iso, split_page

# What two pauses hold back waits on each of them.
PAUSES = """
SELECT p.id, p.agent, p.tool, p.reason, p.created_by, p.created_at, p.ended_by, p.ended_at,
    waiting.effects, waiting.jobs
FROM signoff.pauses p, LATERAL (
    SELECT count(*) AS effects, count(DISTINCT e.job_id) AS jobs FROM signoff.effects e
    WHERE e.waits_for = 'pause' AND p.ended_at IS NULL AND (p.agent IS NULL OR p.agent = e.agent)
        AND (p.tool IS NULL OR p.tool = e.tool)) AS waiting
"""
PROVIDERS = """
SELECT v.name AS provider, v.tokens, v.counted_at, v.failures, v.opened_at, v.open_until, v.last_error,
    (SELECT count(*) FROM signoff.effects e WHERE e.status = 'dispatched' AND e.provider = v.name) AS in_flight,
    (SELECT count(*) FROM signoff.effects e WHERE e.waits_for = 'circuit' AND e.provider = v.name) AS wait_for_circuit,
    (SELECT count(*) FROM signoff.effects e WHERE e.waits_for = 'limit' AND e.provider = v.name) AS wait_for_limit
FROM signoff.providers v ORDER BY v.opened_at NULLS LAST, v.failures DESC, v.name LIMIT 1000
"""


async def list_pauses(
    conn: AsyncConnection[DictRow], ended: bool, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"pauses", "next"}: newest first; those that are active, or all. Raises RightMissing, InvalidRequest."""
    require_right(who, Right.operate)
    page = page or Page()
    query = Query()
    if not ended:
        query.add("p.ended_at IS NULL")
    query.add_page(page, "p.created_at", "p.id", UUID)
    cursor = await conn.execute(
        f"{PAUSES} WHERE {query.where} ORDER BY p.created_at DESC, p.id DESC LIMIT %(rows)s", query.parameters
    )
    kept, after = split_page(await cursor.fetchall(), page, "id")
    return {"pauses": [_pause(row) for row in kept], "next": after}


async def show_pause(conn: AsyncConnection[DictRow], pause_id: UUID) -> dict[str, Any]:
    """Raises PauseNotFound."""
    row = await (await conn.execute(f"{PAUSES} WHERE p.id = %s", (pause_id,))).fetchone()
    if row is None:
        raise PauseNotFound(f"there is no pause {pause_id}")
    return _pause(row)


async def list_providers(conn: AsyncConnection[DictRow], who: Principal) -> dict[str, Any]:
    """{"providers"}: those with limits, and those that ever failed; what fails first. Raises RightMissing."""
    require_right(who, Right.operate)
    rows = await (await conn.execute(PROVIDERS)).fetchall()
    times = ("counted_at", "opened_at", "open_until")
    return {"providers": [{**row, **{name: iso(row[name]) for name in times}} for row in rows]}


def _pause(row: DictRow) -> dict[str, Any]:
    names = ("agent", "tool", "reason", "created_by", "ended_by", "effects", "jobs")
    return {
        "pause_id": str(row["id"]),
        **{name: row[name] for name in names},
        "created_at": iso(row["created_at"]),
        "ended_at": iso(row["ended_at"]),
    }
