"""Subgraph calls, state that outlives them, reads beside flushes, and what stays in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.pool import Pool
from tests.support.savers import Server, add_thread, flush, litter, load_head, pool_of_module, put, saver_of, stored

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pool(postgres_server: Server, template_database: str) -> AsyncIterator[Pool]:
    async with pool_of_module(postgres_server, template_database) as pool:
        yield pool


@pytest.fixture
async def thread_id(pool: Pool) -> str:
    return await add_thread(pool)


async def _checkpoints(pool: Pool, thread_id: str) -> list[tuple[Any, ...]]:
    return (await stored(pool, thread_id))["checkpoints"]


async def test_a_call_that_a_dead_run_had_begun_goes_with_its_root(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    root = await put(saver, thread_id, {"a": [1]}, id="1")
    await put(saver, thread_id, {"a": [1]}, ns="sub:t", parents={"": "1"}, id="2")
    await put(saver, thread_id, {"a": [1]}, ns="sub:t|deep:u", parents={"": "1", "sub:t": "2"}, id="3")
    await flush(saver, pool)
    assert len(await _checkpoints(pool, thread_id)) == 3
    for _ in range(2):
        saver = await saver_of(pool, thread_id)
        root = await put(saver, thread_id, {"a": [2]}, after=root)
        await flush(saver, pool)
        assert len(await _checkpoints(pool, thread_id)) == 1
        assert await litter(pool, thread_id) == []
        assert (head := await load_head(pool, thread_id)) is not None
        assert head.subgraph_heads == {}


async def test_an_inner_call_goes_with_the_step_that_made_it(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [1]}, id="1")
    middle = await put(saver, thread_id, {"a": [1]}, ns="sub:t", parents={"": "1"}, id="2")
    await put(saver, thread_id, {"a": [1]}, ns="sub:t|deep:u", parents={"": "1", "sub:t": "2"}, id="3")
    await flush(saver, pool)
    await put(saver, thread_id, {"a": [1]}, after=middle, ns="sub:t", parents={"": "1"}, id="4")
    await flush(saver, pool)
    assert await _checkpoints(pool, thread_id) == [("", "1"), ("sub:t", "4")]


async def test_a_call_that_was_parked_in_stays_when_it_is_over(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    root = await put(saver, thread_id, {"a": [1]}, id="1")
    inner = await put(saver, thread_id, {"a": [1]}, ns="sub:t", parents={"": "1"}, id="2")
    await flush(saver, pool, parked=True)
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [2]}, after=inner, ns="sub:t", parents={"": "1"}, id="3")
    await flush(saver, pool)
    assert await _checkpoints(pool, thread_id) == [("", "1"), ("sub:t", "2"), ("sub:t", "3")]
    await put(saver, thread_id, {"a": [2]}, after=root, id="4")
    await flush(saver, pool)
    assert await _checkpoints(pool, thread_id) == [("", "1"), ("", "4"), ("sub:t", "2")]
    assert await litter(pool, thread_id) == []


async def test_a_call_of_an_older_park_goes_with_the_branch_that_resumed_it(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    older = await put(saver, thread_id, {"a": [1]}, id="1")
    await flush(saver, pool, parked=True)
    await put(saver, thread_id, {"a": [2]}, after=older, id="2")
    await flush(saver, pool, parked=True)
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [3]}, ns="sub:t", parents={"": "1"}, id="3")
    await flush(saver, pool)
    await put(saver, thread_id, {"a": [3]}, after=older, id="4")
    await flush(saver, pool)
    assert await _checkpoints(pool, thread_id) == [("", "1"), ("", "2"), ("", "4")]
    assert (head := await load_head(pool, thread_id)) is not None
    assert head.subgraph_heads == {}


@pytest.mark.parametrize("same_run", [True, False])
async def test_what_a_fork_needs_of_lasting_state_goes_with_the_root(
    pool: Pool, thread_id: str, same_run: bool
) -> None:
    saver = await saver_of(pool, thread_id)
    before = await put(saver, thread_id, {"a": [1]}, ns="sub", id="1")
    root = await put(saver, thread_id, {"a": [1]}, id="2")
    between = await put(saver, thread_id, {"a": [2]}, after=before, ns="sub", parents={"": "2"}, id="3")
    await put(saver, thread_id, {"a": [3]}, after=between, ns="sub", parents={"": "2"}, id="4")
    await flush(saver, pool)
    assert await _checkpoints(pool, thread_id) == [("", "2"), ("sub", "1"), ("sub", "4")]
    if not same_run:
        saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [4]}, after=root, id="5")
    await flush(saver, pool)
    assert await _checkpoints(pool, thread_id) == [("", "5"), ("sub", "4")]
    assert await litter(pool, thread_id) == []
    found = await (await saver_of(pool, thread_id)).aget_tuple(_newest(thread_id, "sub"))
    assert found is not None
    assert found.parent_config is None


def _newest(thread_id: str, ns: str = "") -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


class HeldUpSaver(RunSaver):
    """Its reads have their rows but don't return before the gate opens."""

    gate: asyncio.Event
    reading: asyncio.Event

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[Any]:
        async with super()._cursor(pipeline=pipeline) as cursor:
            yield cursor
            self.reading.set()
            await self.gate.wait()


async def test_a_read_beside_a_flush_finds_what_the_flush_leaves(pool: Pool, thread_id: str) -> None:
    saver = HeldUpSaver(pool, thread_id=thread_id, job_id=uuid4(), head=None)
    saver.gate, saver.reading = asyncio.Event(), asyncio.Event()
    first = await put(saver, thread_id, {"a": [1], "b": [1]})
    await flush(saver, pool)
    read = asyncio.create_task(saver.aget_tuple(_newest(thread_id)))
    await saver.reading.wait()
    second = await put(saver, thread_id, {"a": [2], "b": [2]}, after=first)
    await flush(saver, pool)
    saver.gate.set()
    found = await read
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": [2], "b": [2]}
    await put(saver, thread_id, {"a": [3], "b": [3]}, after=second)
    await flush(saver, pool)
    assert await litter(pool, thread_id) == []


async def test_writes_wait_for_their_checkpoint(pool: Pool, thread_id: str) -> None:
    """LangGraph puts both in the background, and promises no order."""
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [1]}, id="1")
    place: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": "2"}}
    await saver.aput_writes(place, [("a", [2])], "task")
    await flush(saver, pool)
    await put(saver, thread_id, {"a": [2]}, after=_newest(thread_id) | {"configurable": {"checkpoint_id": "1"}}, id="2")
    await flush(saver, pool)
    found = await (await saver_of(pool, thread_id)).aget_tuple(place)
    assert found is not None
    assert found.pending_writes == [("task", "a", [2])]


async def test_copies_with_another_serializer_share_what_is_held(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    copy = saver.with_allowlist({("some.module", "Type")})
    assert isinstance(copy, RunSaver)
    assert copy is not saver
    await put(copy, thread_id, {"a": [1]})
    await flush(saver, pool)
    assert await copy.aget_tuple(_newest(thread_id)) is not None
    with pytest.raises(ZeroDivisionError):
        async with copy.flushing():
            _ = 1 // 0
    assert saver.dead


async def test_memory_holds_no_more_than_the_newest_values(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    place: Any = None
    late: Any = None
    for number in range(5):
        place = await put(saver, thread_id, {"a": [number]}, after=place)
        await saver.aput_writes(place, [("a", [number])], "task")
        started_from = {"": place["configurable"]["checkpoint_id"]}
        late = await put(saver, thread_id, {"a": [1]}, ns=f"sub:{number}", parents=started_from)
        if number % 2:
            await flush(saver, pool)
    place = await put(saver, thread_id, {"a": [6]}, after=place)
    await flush(saver, pool)
    await saver.aput_writes(late, [("a", ["late"])], "late")
    await flush(saver, pool)
    buffer = saver._buffer
    assert not buffer.writes
    assert not buffer.unsaved
    assert list(buffer.lines) == [""]
    assert not buffer.lines[""].rows
    assert len(buffer.blobs) == 1
