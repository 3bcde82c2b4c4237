"""Threads, savers and flushes for tests of checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from langgraph.checkpoint.base.id import uuid6

from signoff.infra.embedded import EmbeddedPostgres
from signoff.infra.postgres.checkpoints import Head, RunSaver
from signoff.infra.postgres.pool import Pool, make_pool
from tests.support.databases import ConfiguredServer, fresh_database

Server = EmbeddedPostgres | ConfiguredServer


@asynccontextmanager
async def open_pool(database_url: str, size: int = 4) -> AsyncIterator[Pool]:
    async with make_pool(database_url, size) as pool:
        yield pool


@asynccontextmanager
async def pool_of_module(server: Server, template_url: str) -> AsyncIterator[Pool]:
    """A migrated database for all tests of a module. Each uses a thread of its own, and takes less than cloning."""
    with fresh_database(server.url, template=urlsplit(template_url).path.removeprefix("/")) as url:
        async with open_pool(url) as pool:
            yield pool


async def add_thread(pool: Pool) -> str:
    thread_id = f"t{uuid4().hex[:8]}"
    await ensure_thread(pool, thread_id)
    return thread_id


async def ensure_thread(pool: Pool, thread_id: str) -> None:
    async with pool.connection() as conn:
        await conn.execute(
            "INSERT INTO signoff.threads (id, agent, lineage_root, created_by) VALUES (%s, 'a', %s, 'p')"
            " ON CONFLICT DO NOTHING",
            (thread_id, thread_id),
        )


async def load_head(pool: Pool, thread_id: str) -> Head | None:
    async with pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT head_checkpoint_id, head_job_id, head_parked, subgraph_heads FROM signoff.threads WHERE id = %s",
            (thread_id,),
        )
        row = await cursor.fetchone()
    assert row is not None
    if row["head_checkpoint_id"] is None:
        return None
    return Head(row["head_checkpoint_id"], row["head_job_id"], row["head_parked"], row["subgraph_heads"])


async def saver_of(pool: Pool, thread_id: str, job_id: UUID | None = None, **options: Any) -> RunSaver:
    """A saver as a worker would make it, that starts from what the thread's row says."""
    head = await load_head(pool, thread_id)
    return RunSaver(pool, thread_id=thread_id, job_id=job_id or uuid4(), head=head, **options)


async def flush(saver: RunSaver, pool: Pool, *, parked: bool = False) -> None:
    async with saver.flushing() as flush, pool.connection() as conn, conn.transaction():
        await flush.write(conn, parked=parked)


async def stored(pool: Pool, thread_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """The keys of all rows of the thread in LangGraph's tables."""
    keys = {
        "checkpoints": "checkpoint_ns, checkpoint_id",
        "checkpoint_blobs": "checkpoint_ns, channel, version",
        "checkpoint_writes": "checkpoint_ns, checkpoint_id, task_id, idx",
    }
    result: dict[str, list[tuple[Any, ...]]] = {}
    async with pool.connection() as conn:
        for table, columns in keys.items():
            cursor = await conn.execute(
                f"SELECT {columns} FROM {table} WHERE thread_id = %s ORDER BY {columns}".encode(), (thread_id,)
            )
            result[table] = [tuple(row.values()) for row in await cursor.fetchall()]
    return result


_UNREFERENCED_BLOBS = """
SELECT checkpoint_ns, channel, version FROM checkpoint_blobs b WHERE thread_id = %s AND NOT EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns
    AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version)
"""
_STRAY_WRITES = """
SELECT checkpoint_ns, checkpoint_id FROM checkpoint_writes w WHERE thread_id = %s AND NOT EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns
    AND c.checkpoint_id = w.checkpoint_id)
"""
_DANGLING_PARENTS = """
SELECT checkpoint_ns, checkpoint_id FROM checkpoints c
WHERE thread_id = %s AND parent_checkpoint_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM checkpoints p WHERE p.thread_id = c.thread_id AND p.checkpoint_ns = c.checkpoint_ns
    AND p.checkpoint_id = c.parent_checkpoint_id)
"""
_CALLS_OF_NOTHING = """
SELECT checkpoint_ns, checkpoint_id FROM checkpoints c
WHERE thread_id = %s AND checkpoint_ns LIKE '%%:%%' AND NOT EXISTS (
    SELECT 1 FROM checkpoints r WHERE r.thread_id = c.thread_id AND r.checkpoint_ns = ''
    AND r.checkpoint_id = c.metadata -> 'parents' ->> '')
"""


async def litter(pool: Pool, thread_id: str) -> list[tuple[Any, ...]]:
    """Rows of the thread that refer to nothing, or that nothing refers to."""
    found: list[tuple[Any, ...]] = []
    async with pool.connection() as conn:
        for query in (_UNREFERENCED_BLOBS, _STRAY_WRITES, _DANGLING_PARENTS, _CALLS_OF_NOTHING):
            cursor = await conn.execute(query, (thread_id,))
            found += [tuple(row.values()) for row in await cursor.fetchall()]
    return found


async def put(saver: RunSaver, thread_id: str, values: dict[str, Any], after: Any = None, **options: Any) -> Any:
    """Puts a checkpoint in which all values are new, and returns its config."""
    versions: dict[str, Any] = {channel: f"{uuid4()}" for channel in values}
    checkpoint: Any = {
        "v": 4,
        "id": options.get("id") or str(uuid6()),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
        "updated_channels": None,
    }
    parent = after["configurable"]["checkpoint_id"] if after else None
    place = {"thread_id": thread_id, "checkpoint_ns": options.get("ns", ""), "checkpoint_id": parent}
    metadata: Any = {"source": "loop", "step": 1, "parents": options.get("parents", {})}
    return await saver.aput({"configurable": place}, checkpoint, metadata, versions)
