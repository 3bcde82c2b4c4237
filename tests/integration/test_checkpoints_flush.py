"""One flush: what it takes, what it leaves for the next, and what a failed one means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME

from signoff.domain.errors import LeaseLost
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.pool import Pool
from tests.support.savers import Server, add_thread, flush, load_head, pool_of_module, put, saver_of, stored

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pool(postgres_server: Server, template_database: str) -> AsyncIterator[Pool]:
    async with pool_of_module(postgres_server, template_database) as pool:
        yield pool


@pytest.fixture
async def thread_id(pool: Pool) -> str:
    return await add_thread(pool)


@pytest.fixture
async def saver(pool: Pool, thread_id: str) -> RunSaver:
    return await saver_of(pool, thread_id)


async def test_what_is_put_during_a_flush_waits_for_the_next(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    first = await put(saver, thread_id, {"a": [1]})
    await saver.aput_writes(first, [("a", [1])], "task")
    async with saver.flushing() as flush_1, pool.connection() as conn, conn.transaction():
        second = await put(saver, thread_id, {"a": [2]}, after=first)
        await saver.aput_writes(second, [("a", [2])], "task")
        await saver.aput_writes(first, [("a", [3])], "late")
        await flush_1.write(conn, parked=False)
    rows = await stored(pool, thread_id)
    assert [row[1] for row in rows["checkpoints"]] == [first["configurable"]["checkpoint_id"]]
    assert [row[2] for row in rows["checkpoint_writes"]] == ["task"]
    held = await saver.aget_tuple({"configurable": {"thread_id": thread_id}})
    assert held is not None
    assert held.checkpoint["channel_values"] == {"a": [2]}
    await flush(saver, pool)
    read = await (await saver_of(pool, thread_id)).aget_tuple({"configurable": {"thread_id": thread_id}})
    assert read is not None
    assert read.checkpoint["channel_values"] == {"a": [2]}
    assert read.pending_writes == [("task", "a", [2])]
    assert len((await stored(pool, thread_id))["checkpoints"]) == 1


async def test_a_write_that_is_replaced_during_a_flush_is_written_by_the_next(
    pool: Pool, thread_id: str, saver: RunSaver
) -> None:
    place = await put(saver, thread_id, {"a": [1]})
    await saver.aput_writes(place, [(RESUME, ["first"])], "task")
    async with saver.flushing() as flush_1, pool.connection() as conn, conn.transaction():
        await flush_1.write(conn, parked=False)
        await saver.aput_writes(place, [(RESUME, ["first", "second"])], "task")
    for _ in range(2):
        read = await saver.aget_tuple(place)
        assert read is not None
        assert read.pending_writes == [("task", RESUME, ["first", "second"])]
        await flush(saver, pool)
        saver = await saver_of(pool, thread_id)


async def test_ordinary_writes_stay_and_special_ones_are_replaced(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    place = await put(saver, thread_id, {"a": [1]})
    for number in (1, 2, 3):
        await saver.aput_writes(place, [("a", number)], "task")
        await saver.aput_writes(place, [(INTERRUPT, number)], "other")
        if number != 2:
            await flush(saver, pool)
        read = await saver.aget_tuple(place)
        assert read is not None
        assert sorted(read.pending_writes or []) == [("other", INTERRUPT, number), ("task", "a", 1)]


async def test_changing_an_object_changes_nothing_stored(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    config = {"configurable": {"thread_id": thread_id}}
    value, write = {"deep": [1]}, {"w": [1]}
    place = await put(saver, thread_id, {"a": value})
    await saver.aput_writes(place, [("a", write)], "task")
    value["deep"].append(2)
    write["w"].append(2)
    for _ in range(3):
        read = await saver.aget_tuple(config)  # type: ignore[arg-type]
        assert read is not None
        assert read.checkpoint["channel_values"] == {"a": {"deep": [1]}}
        assert read.pending_writes == [("task", "a", {"w": [1]})]
        read.checkpoint["channel_values"]["a"]["deep"].append(3)
        read.checkpoint["channel_versions"].clear()
        read.metadata["step"] = 99
        read.pending_writes.clear()
        await flush(saver, pool)


async def test_reading_writes_nothing(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    place = await put(saver, thread_id, {"a": [1]})
    await flush(saver, pool, parked=True)
    reader = await saver_of(pool, thread_id)
    assert await reader.aget_tuple(place) is not None
    assert [found async for found in reader.alist(place)]
    async with reader.flushing() as flush_1:
        assert flush_1.empty
        assert flush_1.head_checkpoint_id == place["configurable"]["checkpoint_id"]
        async with pool.connection() as conn, conn.transaction():
            await flush_1.write(conn, parked=True)
            cursor = await conn.execute("SELECT pg_current_xact_id_if_assigned() AS written")
            assert await cursor.fetchone() == {"written": None}


async def test_a_flush_that_is_not_written_forgets_nothing(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    await put(saver, thread_id, {"a": [1]})
    async with saver.flushing() as flush_1:
        assert not flush_1.empty
    await flush(saver, pool)
    assert len((await stored(pool, thread_id))["checkpoints"]) == 1


async def test_a_fenced_flush_leaves_nothing_and_ends_the_saver(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    place = await put(saver, thread_id, {"a": [1]})
    await saver.aput_writes(place, [("a", [1])], "task")

    async def fenced_flush() -> None:
        async with saver.flushing() as flush_1, pool.connection() as conn, conn.transaction():
            await flush_1.write(conn, parked=False)
            cursor = await conn.execute("SELECT 1 FROM signoff.jobs WHERE id = %s AND fence = 7 FOR SHARE", (uuid4(),))
            if await cursor.fetchone() is None:
                raise LeaseLost("another worker has the job")

    with pytest.raises(LeaseLost):
        await fenced_flush()
    assert not any((await stored(pool, thread_id)).values())
    assert await load_head(pool, thread_id) is None
    await _require_dead(saver, thread_id, place)


async def _require_dead(saver: RunSaver, thread_id: str, place: object) -> None:
    assert saver.dead
    with pytest.raises(LeaseLost):
        await put(saver, thread_id, {"a": [2]})
    with pytest.raises(LeaseLost):
        await saver.aput_writes(place, [("a", [1])], "task")  # type: ignore[arg-type]
    with pytest.raises(LeaseLost):
        async with saver.flushing():
            pytest.fail("a dead saver flushes")


async def test_a_lost_connection_ends_the_saver(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    place = await put(saver, thread_id, {"a": [1]})

    async def cut_off() -> None:
        async with saver.flushing() as flush_1, pool.connection() as conn, conn.transaction():
            await flush_1.write(conn, parked=False)
            async with pool.connection() as other:
                await other.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))

    with pytest.raises(psycopg.OperationalError):
        await cut_off()
    await _require_dead(saver, thread_id, place)


async def test_a_cancelled_flush_ends_the_saver_and_a_cancelled_wait_does_not(
    pool: Pool, thread_id: str, saver: RunSaver
) -> None:
    place = await put(saver, thread_id, {"a": [1]})
    inside, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        async with saver.flushing():
            inside.set()
            await never.wait()

    flushing = asyncio.create_task(hang())
    await inside.wait()
    waiting = asyncio.create_task(flush(saver, pool))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert not saver.dead
    flushing.cancel()
    await asyncio.wait([flushing])
    await _require_dead(saver, thread_id, place)


async def test_flushes_of_one_run_follow_each_other(pool: Pool, thread_id: str, saver: RunSaver) -> None:
    order: list[str] = []

    async def slow(name: str) -> None:
        async with saver.flushing() as flush_1, pool.connection() as conn, conn.transaction():
            order.append(f"{name} begins")
            await flush_1.write(conn, parked=False)
            order.append(f"{name} ends")

    await put(saver, thread_id, {"a": [1]})
    await asyncio.gather(*(slow(name) for name in "abc"))
    assert order == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


async def test_a_thread_that_is_gone_is_a_lost_lease(pool: Pool) -> None:
    saver = RunSaver(pool, thread_id="never made", job_id=uuid4(), head=None)
    await put(saver, "never made", {"a": [1]})
    with pytest.raises(LeaseLost, match="gone"):
        await flush(saver, pool)
    assert not any((await stored(pool, "never made")).values())
