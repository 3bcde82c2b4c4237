"""One statement for a whole flush, and the reads that LangGraph's saver does not have.

The small columns of all rows travel as one JSON document and all values as one run of bytes, of which each row names
its part: the CPU of the worker is what limits it, and one statement with three parameters costs a fraction of many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.checkpoint.postgres.base import PRUNE_DELTA_THREADS_SQL
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow

from signoff.domain.errors import LeaseLost
from signoff.infra.postgres.checkpoint_buffer import Recorded
from signoff.infra.postgres.checkpoint_plan import Held, Plan
from signoff.infra.postgres.checkpoint_rows import Blob, BlobKey, Place, Row

_WRITES = """
    INSERT INTO checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    SELECT %(thread)s::text, w.n, w.i, w.t, w.p, w.x, w.c, w.k, substring(%(values)s::bytea FROM w.o FOR w.l)
    FROM jsonb_to_recordset(%(rows)s::jsonb -> '{name}')
        AS w(n text, i text, t text, p text, x int, c text, k text, o int, l int)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)"""

FLUSH = f"""
WITH new_blobs AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT %(thread)s::text, b.n, b.c, b.v, b.k, substring(%(values)s::bytea FROM b.o FOR b.l)
    FROM jsonb_to_recordset(%(rows)s::jsonb -> 'blobs') AS b(n text, c text, v text, k text, o int, l int)
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING
), new_rows AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
    SELECT %(thread)s::text, r.n, r.i, r.p, r.c, r.m
    FROM jsonb_to_recordset(%(rows)s::jsonb -> 'checkpoints') AS r(n text, i text, p text, c jsonb, m jsonb)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata
    RETURNING checkpoint_ns, checkpoint -> 'channel_versions' AS versions
), new_writes AS ({_WRITES.format(name="writes")} DO NOTHING
), new_answers AS ({_WRITES.format(name="answers")}
    DO UPDATE SET channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob
), moved AS (
    UPDATE checkpoints c SET parent_checkpoint_id = m.p
    FROM jsonb_to_recordset(%(rows)s::jsonb -> 'moved') AS m(n text, i text, p text)
    WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = m.n AND c.checkpoint_id = m.i
), gone AS (
    DELETE FROM checkpoints c USING jsonb_to_recordset(%(rows)s::jsonb -> 'gone') AS g(n text, i text)
    WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = g.n AND c.checkpoint_id = g.i
    RETURNING c.checkpoint_ns, c.checkpoint_id, c.checkpoint -> 'channel_versions' AS versions
), gone_writes AS (
    DELETE FROM checkpoint_writes w USING jsonb_to_recordset(%(rows)s::jsonb -> 'gone') AS g(n text, i text)
    WHERE w.thread_id = %(thread)s AND w.checkpoint_ns = g.n AND w.checkpoint_id = g.i
), freed AS (
    SELECT DISTINCT gone.checkpoint_ns, v.key AS channel, v.value AS version
    FROM gone, jsonb_each_text(gone.versions) AS v
), gone_blobs AS (
    DELETE FROM checkpoint_blobs b USING freed f
    WHERE b.thread_id = %(thread)s AND b.checkpoint_ns = f.checkpoint_ns
    AND b.channel = f.channel AND b.version = f.version
    AND NOT EXISTS (
        SELECT 1 FROM new_rows r WHERE r.checkpoint_ns = f.checkpoint_ns AND r.versions ->> f.channel = f.version
    ) AND NOT EXISTS (
        SELECT 1 FROM checkpoints c
        WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = f.checkpoint_ns
        AND c.checkpoint -> 'channel_versions' ->> f.channel = f.version
        AND (c.checkpoint_ns, c.checkpoint_id) NOT IN (SELECT g.checkpoint_ns, g.checkpoint_id FROM gone g)
    )
)
UPDATE signoff.threads
SET head_checkpoint_id = %(head)s, head_job_id = %(job)s, head_parked = %(parked)s, subgraph_heads = %(heads)s
WHERE id = %(thread)s
"""

FORGET_HEADS = """
UPDATE signoff.threads
SET head_checkpoint_id = NULL, head_job_id = NULL, head_parked = false, subgraph_heads = '{}'
WHERE id = ANY(%s)
"""

_KEPT = """EXISTS (
    SELECT 1 FROM jsonb_to_recordset(%(kept)s::jsonb) AS k(n text, i text)
    WHERE k.n = t.checkpoint_ns AND k.i = t.checkpoint_id
)"""

KEEP_ONLY = (
    f"DELETE FROM checkpoint_writes t WHERE thread_id = %(thread)s AND NOT {_KEPT}",
    f"DELETE FROM checkpoints t WHERE thread_id = %(thread)s AND NOT {_KEPT}",
    """
    UPDATE checkpoints t SET parent_checkpoint_id = NULL
    WHERE thread_id = %(thread)s AND NOT EXISTS (
        SELECT 1 FROM checkpoints p WHERE p.thread_id = t.thread_id AND p.checkpoint_ns = t.checkpoint_ns
        AND p.checkpoint_id = t.parent_checkpoint_id
    )
    """,
    """
    DELETE FROM checkpoint_blobs t WHERE thread_id = %(thread)s AND NOT EXISTS (
        SELECT 1 FROM checkpoints c WHERE c.thread_id = t.thread_id AND c.checkpoint_ns = t.checkpoint_ns
        AND c.checkpoint -> 'channel_versions' ->> t.channel = t.version
    )
    """,
)


async def refuse_deltas(cursor: AsyncCursor[DictRow], thread_id: str) -> None:
    """
    Raises:
        NotImplementedError: as LangGraph's saver does it, for a thread that is rebuilt from all of its writes.
    """
    await cursor.execute(PRUNE_DELTA_THREADS_SQL, ([thread_id], [thread_id]))
    if await cursor.fetchone() is not None:
        raise NotImplementedError(f"keep_latest can't prune a thread that uses a DeltaChannel: {thread_id}")


async def keep_only(cursor: AsyncCursor[DictRow], thread_id: str, places: Iterable[Place]) -> None:
    """Deletes all else of the thread."""
    kept = json.dumps([{"n": namespace, "i": checkpoint_id} for namespace, checkpoint_id in places])
    async with cursor.connection.transaction():
        for statement in KEEP_ONLY:
            await cursor.execute(statement, {"thread": thread_id, "kept": kept})


async def write_plan(conn: AsyncConnection[DictRow], thread_id: str, plan: Plan, recorded: Recorded) -> None:
    """
    Raises:
        LeaseLost: the thread is gone.
    """
    values: list[bytes] = []
    document = _document(plan, values)
    params = {
        "thread": thread_id,
        "rows": document,
        "values": b"".join(values),
        "head": recorded.checkpoint_id,
        "job": recorded.job_id,
        "parked": recorded.parked,
        "heads": json.dumps(recorded.subgraph_heads),
    }
    cursor = await conn.execute(FLUSH, params)
    if cursor.rowcount != 1:
        raise LeaseLost(f"thread {thread_id} is gone", thread_id=thread_id)


def _document(plan: Plan, values: list[bytes]) -> str:
    document: dict[str, Any] = {}
    end = 1
    if plan.blobs:
        end, document["blobs"] = _blobs(plan.blobs, values, end)
    for name, replaces in (("writes", False), ("answers", True)):
        if writes := [held for held in plan.writes if held[2].replaces is replaces]:
            end, document[name] = _writes(writes, values, end)
    if plan.gone:
        document["gone"] = [{"n": ns, "i": checkpoint_id} for ns, checkpoint_id in plan.gone]
    if plan.moved:
        document["moved"] = [{"n": ns, "i": i, "p": parent} for (ns, i), parent in plan.moved.items()]
    text = json.dumps(document)
    return text if not plan.rows else f"{text[:-1]}{', ' if document else ''}{_rows(plan.rows)}}}"


def _blobs(blobs: Mapping[BlobKey, Blob], values: list[bytes], end: int) -> tuple[int, list[dict[str, Any]]]:
    rows = []
    for (ns, channel, version), (kind, data) in blobs.items():
        rows.append({"n": ns, "c": channel, "v": version, "k": kind, "o": end, "l": len(data)})
        values.append(data)
        end += len(data)
    return end, rows


def _writes(writes: Iterable[Held], values: list[bytes], end: int) -> tuple[int, list[dict[str, Any]]]:
    rows = []
    for (ns, checkpoint_id), (task, index), w in writes:
        row = {"n": ns, "i": checkpoint_id, "t": task, "p": w.task_path, "x": index, "c": w.channel, "k": w.type}
        rows.append({**row, "o": end, "l": len(w.data)})
        values.append(w.data)
        end += len(w.data)
    return end, rows


def _rows(rows: Iterable[Row]) -> str:
    """Their JSON is put in as it is: it was made at put."""
    dumps = json.dumps
    items = (
        f'{{"n": {dumps(r.namespace)}, "i": {dumps(r.id)}, "p": {dumps(r.parent)},'
        f' "c": {r.checkpoint}, "m": {r.metadata}}}'
        for r in rows
    )
    return f'"checkpoints": [{", ".join(items)}]'
