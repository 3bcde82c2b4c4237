"""The checkpoints of a job that it can be forked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import JobNotFound

CHECKPOINTS = """
SELECT c.checkpoint_id, c.checkpoint ->> 'ts' AS at, c.checkpoint_id = t.head_checkpoint_id AS newest,
    ARRAY(SELECT w.type FROM checkpoint_writes w WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = ''
        AND w.checkpoint_id = c.checkpoint_id AND w.channel = '__interrupt__' ORDER BY w.task_path, w.task_id) AS types,
    ARRAY(SELECT w.blob FROM checkpoint_writes w WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = ''
        AND w.checkpoint_id = c.checkpoint_id AND w.channel = '__interrupt__' ORDER BY w.task_path, w.task_id) AS asked
FROM signoff.jobs j JOIN signoff.threads t ON t.id = j.thread_id
JOIN checkpoints c ON c.thread_id = t.id AND c.checkpoint_ns = ''
WHERE j.id = %s AND c.metadata ->> 'job_id' = j.id::text ORDER BY c.checkpoint_id DESC
"""
TOOLS = """
SELECT operation_id, tool FROM signoff.items WHERE operation_id = ANY(%(ids)s)
UNION SELECT operation_id, tool FROM signoff.effects WHERE operation_id = ANY(%(ids)s)
"""


async def list_checkpoints(conn: AsyncConnection[DictRow], job_id: UUID, who: Principal) -> dict[str, Any]:
    """{"checkpoints"}, newest first: each with when it was made, and what the job was parked at there, if it was.

    Raises: RightMissing, JobNotFound.
    """
    require_right(who, Right.operate)
    if await (await conn.execute("SELECT FROM signoff.jobs WHERE id = %s", (job_id,))).fetchone() is None:
        raise JobNotFound(f"there is no job {job_id}")
    rows = await (await conn.execute(CHECKPOINTS, (job_id,), binary=True)).fetchall()
    asked = [_asked(row) for row in rows]
    tools = await _tools(conn, {operation for pauses in asked for pause in pauses for operation in _operations(pause)})
    return {"checkpoints": [_shown(row, pauses, tools) for row, pauses in zip(rows, asked, strict=True)]}


def _asked(row: DictRow) -> list[dict[str, Any]]:
    serde = JsonPlusSerializer()
    found = (serde.loads_typed((kind, bytes(data))) for kind, data in zip(row["types"], row["asked"], strict=True))
    values = [interrupt.value for interrupts in found for interrupt in interrupts]
    return [value if isinstance(value, dict) else {"kind": "other"} for value in values]


def _operations(pause: dict[str, Any]) -> Iterable[str]:
    return pause.get("operations") or ([pause["operation_id"]] if "operation_id" in pause else [])


async def _tools(conn: AsyncConnection[DictRow], operations: set[str]) -> dict[str, str]:
    rows = await (await conn.execute(TOOLS, {"ids": sorted(operations)})).fetchall()
    return {row["operation_id"]: row["tool"] for row in rows}


def _shown(row: DictRow, pauses: list[dict[str, Any]], tools: dict[str, str]) -> dict[str, Any]:
    parked_at = [
        {"kind": pause.get("kind", "other"), "tools": sorted(tools.get(name, "?") for name in _operations(pause))}
        for pause in pauses
    ]
    return {"checkpoint_id": row["checkpoint_id"], "at": row["at"], "newest": row["newest"], "parked_at": parked_at}
