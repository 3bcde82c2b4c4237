"""A run that is killed at any of its flushes ends as if nothing had happened, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from signoff.infra.postgres.pool import Pool
from tests.support.saver_graphs import GRAPHS
from tests.support.saver_worlds import OurWorld, converse, view
from tests.support.savers import Server, add_thread, litter, load_head, pool_of_module, stored

pytestmark = pytest.mark.anyio

KEEPS_EVERYTHING = {"delta", "hidden_delta"}


@pytest.fixture(scope="module")
async def pool(postgres_server: Server, template_database: str) -> AsyncIterator[Pool]:
    async with pool_of_module(postgres_server, template_database) as pool:
        yield pool


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_kill_at_any_flush_changes_nothing(pool: Pool, name: str) -> None:
    build, turn = GRAPHS[name]
    graph = build()
    undisturbed = OurWorld(pool, await add_thread(pool), graph, lambda: True)
    await converse(undisturbed, [turn])
    expected = await view(undisturbed)
    for flush in range(1, undisturbed.flushed + 1):
        thread_id = await add_thread(pool)
        killed = OurWorld(pool, thread_id, graph, lambda: True)
        killed.kill_at = flush
        await converse(killed, [turn])
        assert killed.flushed >= flush
        assert await view(killed) == expected, f"killed at flush {flush}"
        assert name in KEEPS_EVERYTHING or await _is_tidy(pool, killed, thread_id), f"killed at flush {flush}"


@pytest.mark.parametrize("name", sorted(GRAPHS.keys() - KEEPS_EVERYTHING))
@pytest.mark.parametrize("often", [False, True])
async def test_one_checkpoint_per_park_and_the_head_are_left(pool: Pool, name: str, often: bool) -> None:
    build, turn = GRAPHS[name]
    thread_id = await add_thread(pool)
    world = OurWorld(pool, thread_id, build(), lambda: often)
    await converse(world, [turn] * 4, one_at_a_time=True)
    assert await _is_tidy(pool, world, thread_id)


async def _is_tidy(pool: Pool, world: OurWorld, thread_id: str) -> bool:
    head = await load_head(pool, thread_id)
    assert head is not None
    rows = await stored(pool, thread_id)
    roots = [checkpoint_id for ns, checkpoint_id in rows["checkpoints"] if ns == ""]
    return roots == sorted({*world.parked_at, head.checkpoint_id}) and not await litter(pool, thread_id)
