"""The head: found through the thread's row, moved by flushes, kept where a run was parked."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from signoff.infra.postgres.checkpoints import RunSaver, needs_every_checkpoint
from signoff.infra.postgres.pool import Pool
from tests.support.saver_graphs import delta, plain, subgraph_node
from tests.support.savers import Server, add_thread, flush, litter, load_head, pool_of_module, put, saver_of, stored

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pool(postgres_server: Server, template_database: str) -> AsyncIterator[Pool]:
    async with pool_of_module(postgres_server, template_database) as pool:
        yield pool


@pytest.fixture
async def thread_id(pool: Pool) -> str:
    return await add_thread(pool)


def _newest(thread_id: str, ns: str = "") -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}


async def _value(saver: RunSaver, config: Any) -> Any:
    found = await saver.aget_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]["a"]


async def test_the_head_is_the_last_and_not_the_largest(pool: Pool, thread_id: str) -> None:
    for name, checkpoint_id in (("early", "2" * 8), ("late", "1" * 8)):
        for ns in ("", "sub"):
            saver = await saver_of(pool, thread_id)
            await put(saver, thread_id, {"a": [name, ns]}, id=checkpoint_id, ns=ns)
            assert await _value(saver, _newest(thread_id, ns)) == [name, ns]
            await flush(saver, pool, parked=True)
            assert await _value(await saver_of(pool, thread_id), _newest(thread_id, ns)) == [name, ns]


async def test_a_thread_without_a_head_is_empty_whatever_lies_around(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [1]})
    await flush(saver, pool)
    empty = RunSaver(pool, thread_id=thread_id, job_id=uuid4(), head=None)
    assert await empty.aget_tuple(_newest(thread_id)) is None


async def test_the_row_says_whose_head_it_is_and_whether_a_run_was_parked_there(pool: Pool, thread_id: str) -> None:
    first = await saver_of(pool, thread_id)
    place = await put(first, thread_id, {"a": [1]})
    await flush(first, pool)
    assert (head := await load_head(pool, thread_id)) is not None
    assert (head.checkpoint_id, head.parked) == (place["configurable"]["checkpoint_id"], False)
    await flush(first, pool, parked=True)  # nothing else has changed
    assert await load_head(pool, thread_id) == type(head)(head.checkpoint_id, head.job_id, True, {})

    second = await saver_of(pool, thread_id)
    await second.aput_writes(place, [("a", 2)], "task")
    await flush(second, pool)  # the head is still the first job's, and still where it was parked
    assert await load_head(pool, thread_id) == type(head)(head.checkpoint_id, head.job_id, True, {})
    later = await put(second, thread_id, {"a": [2]}, after=place)
    await flush(second, pool)
    assert (new := await load_head(pool, thread_id)) is not None
    assert (new.checkpoint_id, new.parked) == (later["configurable"]["checkpoint_id"], False)
    assert new.job_id != head.job_id


async def test_parents_are_the_nearest_that_are_kept(pool: Pool, thread_id: str) -> None:
    first = await saver_of(pool, thread_id)
    unwritten = await put(first, thread_id, {"a": [0]})
    parked = await put(first, thread_id, {"a": [1]}, after=unwritten)
    await flush(first, pool, parked=True)
    for _ in range(2):
        saver = await saver_of(pool, thread_id)
        before = await saver.aget_tuple(_newest(thread_id))
        assert before is not None
        superseded = await put(saver, thread_id, {"a": [2]}, after=before.config)
        await flush(saver, pool)
        unwritten = await put(saver, thread_id, {"a": [3]}, after=superseded)
        newest = await put(saver, thread_id, {"a": [4]}, after=unwritten)
        await flush(saver, pool)
        chain = [found async for found in (await saver_of(pool, thread_id)).alist(_newest(thread_id))]
        assert [found.config for found in chain] == [newest, parked]
        assert [found.parent_config for found in chain] == [parked, None]
        assert await litter(pool, thread_id) == []


async def test_a_value_that_is_still_used_is_kept(pool: Pool, thread_id: str) -> None:
    """A value that did not change is read with the newest checkpoint, and with the one that was parked at."""
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, {"a": [0], "b": {"big": 1}})
    for parked in (False, True, False, False):
        await flush(saver, pool, parked=parked)
        await _change(saver, thread_id)
    await flush(saver, pool)
    assert len((await stored(pool, thread_id))["checkpoints"]) == 2
    assert await litter(pool, thread_id) == []
    for config in (_newest(thread_id), await _parked(pool, thread_id)):
        found = await (await saver_of(pool, thread_id)).aget_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["b"] == {"big": 1}


async def _change(saver: RunSaver, thread_id: str) -> None:
    """A checkpoint in which `a` is new and the rest as before."""
    before = await saver.aget_tuple(_newest(thread_id))
    assert before is not None
    new: dict[str, Any] = {"a": str(uuid4())}
    versions = {**before.checkpoint["channel_versions"], **new}
    checkpoint: Any = {**before.checkpoint, "id": str(uuid4()), "channel_versions": versions}
    checkpoint["channel_values"]["a"] = [new]
    await saver.aput(before.config, checkpoint, before.metadata, new)


async def _parked(pool: Pool, thread_id: str) -> Any:
    head = await load_head(pool, thread_id)
    assert head is not None
    ids = [i for _, i in (await stored(pool, thread_id))["checkpoints"] if i != head.checkpoint_id]
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": ids[0]}}


async def test_text_and_numbers_that_json_cannot_hold_are_stored(pool: Pool, thread_id: str) -> None:
    values = {"a": "nul \0 in it", "b": math.inf, "c": "plain é", "d": 10**30}
    saver = await saver_of(pool, thread_id)
    await put(saver, thread_id, values)
    await flush(saver, pool)
    found = await (await saver_of(pool, thread_id)).aget_tuple(_newest(thread_id))
    assert found is not None
    assert found.checkpoint["channel_values"] == values


async def test_deleting_a_thread_forgets_what_is_in_memory_and_its_head(pool: Pool, thread_id: str) -> None:
    saver = await saver_of(pool, thread_id)
    place = await put(saver, thread_id, {"a": [1]})
    await flush(saver, pool, parked=True)
    await put(saver, thread_id, {"a": [2]}, after=place)
    await saver.adelete_thread(thread_id)
    assert await saver.aget_tuple(_newest(thread_id)) is None
    assert await load_head(pool, thread_id) is None
    async with saver.flushing() as flush_1:
        assert flush_1.empty
    assert not any((await stored(pool, thread_id)).values())


async def test_pruning_keeps_the_heads_even_if_others_have_larger_ids(pool: Pool, thread_id: str) -> None:
    for checkpoint_id in ("3" * 8, "2" * 8):
        saver = await saver_of(pool, thread_id)
        await put(saver, thread_id, {"a": [checkpoint_id]}, id=checkpoint_id)
        await flush(saver, pool, parked=True)
    await saver.aprune([thread_id])
    assert (await stored(pool, thread_id))["checkpoints"] == [("", "2" * 8)]
    assert await _value(saver, _newest(thread_id)) == ["2" * 8]
    await put(saver, thread_id, {"a": [4]}, id="4" * 8, after=_at(thread_id, "3" * 8))
    await flush(saver, pool)
    assert await litter(pool, thread_id) == []


def _at(thread_id: str, checkpoint_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}


def test_delta_channels_are_found_in_subgraphs_too() -> None:
    assert needs_every_checkpoint(delta())
    assert not needs_every_checkpoint(plain())
    assert not needs_every_checkpoint(subgraph_node())
    builder = plain().builder
    builder.add_node("inner", delta())
    assert needs_every_checkpoint(builder.compile())
