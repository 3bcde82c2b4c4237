"""Workers as operators see them, and what a worker that drains still has under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
from signoff.infra.postgres.views import Page, Query, iso, split_page

LIST = """
SELECT w.name, w.agents, w.version, w.started_at, w.started_at AS created_at, w.seen_at,
    extract(epoch FROM now() - w.seen_at)::float8 AS silent_seconds, w.clock_offset_seconds,
    w.drain_requested_at, w.drain_requested_by, w.drained_at, w.stopped_at,
    (SELECT count(*) FROM signoff.jobs j WHERE j.status = 'running' AND j.lease_owner = w.name) AS jobs
FROM signoff.workers w
"""
JOBS = """
SELECT lease_owner AS worker, id::text AS job_id, agent, claimed_at, lease_until FROM signoff.jobs
WHERE status = 'running' AND lease_owner = ANY (%s) ORDER BY claimed_at
"""
# The newest try of what is under way. Of a run's effects the job shows as well.
EFFECTS = """
SELECT a.worker, e.operation_id, e.agent, e.tool, e.last_dispatched_at
FROM signoff.effects e JOIN signoff.attempts a ON a.operation_id = e.operation_id AND a.number = e.attempts
WHERE e.status = 'dispatched' AND a.outcome IS NULL AND a.worker = ANY (%s) ORDER BY e.created_at
"""
TIMES = ("started_at", "seen_at", "drain_requested_at", "drained_at", "stopped_at")


async def list_workers(
    conn: AsyncConnection[DictRow], stopped: bool, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"workers", "next"}: the newest first; those that have not stopped, or all that are still known.

    Raises RightMissing, InvalidRequest.
    """
    require_right(who, Right.operate)
    page = page or Page()
    query = Query()
    if not stopped:
        query.add("w.stopped_at IS NULL")
    query.add_page(page, "w.started_at", "w.name")
    cursor = await conn.execute(
        f"{LIST} WHERE {query.where} ORDER BY w.started_at DESC, w.name DESC LIMIT %(rows)s", query.parameters
    )
    kept, after = split_page(await cursor.fetchall(), page, "name")
    return {"workers": [_worker(row) for row in kept], "next": after}


async def drain_report(conn: AsyncConnection[DictRow], names: Sequence[str], who: Principal) -> dict[str, Any]:
    """{"workers"}: each with the jobs that it still runs, and the effects that it is sending. Raises RightMissing."""
    require_right(who, Right.operate)
    listed = list(names)
    rows = await (await conn.execute(f"{LIST} WHERE w.name = ANY (%s) ORDER BY w.name", (listed,))).fetchall()
    jobs = await (await conn.execute(JOBS, (listed,))).fetchall()
    effects = await (await conn.execute(EFFECTS, (listed,))).fetchall()
    return {
        "workers": [
            {**_worker(row), "running": _of(row, jobs, "claimed_at", "lease_until"), "sending": _of(row, effects)}
            for row in rows
        ]
    }


def _of(worker: DictRow, rows: Sequence[DictRow], *times: str) -> list[dict[str, Any]]:
    named = times or ("last_dispatched_at",)
    mine = [{key: value for key, value in row.items() if key != "worker"} for row in rows if _is_of(row, worker)]
    return [{**row, **{name: iso(row[name]) for name in named}} for row in mine]


def _is_of(row: DictRow, worker: DictRow) -> bool:
    return bool(row["worker"] == worker["name"])


def _worker(row: DictRow) -> dict[str, Any]:
    facts = {key: value for key, value in row.items() if key not in (*TIMES, "created_at")}
    return {**facts, **{name: iso(row[name]) for name in TIMES}}
