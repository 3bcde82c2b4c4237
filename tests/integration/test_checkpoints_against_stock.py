"""Ours against LangGraph's own saver: the same conversation, the same states at every stop."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from signoff.infra.postgres.pool import Pool
from tests.support.saver_graphs import GRAPHS
from tests.support.saver_worlds import OurWorld, StockWorld, answer_again, begin, converse, fork, revise
from tests.support.savers import Server, add_thread, pool_of_module

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pool(postgres_server: Server, template_database: str) -> AsyncIterator[Pool]:
    async with pool_of_module(postgres_server, template_database) as pool:
        yield pool


def _sometimes(seed: int) -> Callable[[], bool]:
    dice = random.Random(seed)
    return lambda: dice.random() < 0.3


FLUSHES: dict[str, Callable[[], Callable[[], bool]]] = {
    "only at stops": lambda: lambda: False,
    "after every put": lambda: lambda: True,
    "sometimes 1": lambda: _sometimes(1),
    "sometimes 2": lambda: _sometimes(2),
}


@pytest.mark.parametrize("name", GRAPHS)
async def test_every_stop_is_the_same(pool: Pool, name: str) -> None:
    build, turn = GRAPHS[name]
    graph = build()
    for one_at_a_time in (False, True):
        stock = StockWorld(pool, f"s{uuid4().hex[:8]}", graph)
        expected = await converse(stock, [turn, turn], one_at_a_time=one_at_a_time)
        assert any(view["interrupts"] for view in expected)
        for label, flushes in FLUSHES.items():
            ours = OurWorld(pool, await add_thread(pool), graph, flushes())
            assert await converse(ours, [turn, turn], one_at_a_time=one_at_a_time) == expected, label


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_fork_of_every_park_goes_the_same_way(pool: Pool, name: str) -> None:
    build, turn = GRAPHS[name]
    graph = build()
    stock = StockWorld(pool, f"s{uuid4().hex[:8]}", graph)
    await converse(stock, [turn, turn])
    points = list(stock.parked_at)
    expected = [await fork(stock, point) for point in points]
    for label in ("only at stops", "sometimes 1"):
        ours = OurWorld(pool, await add_thread(pool), graph, FLUSHES[label]())
        await converse(ours, [turn, turn])
        assert [await fork(ours, point) for point in ours.parked_at[: len(points)]] == expected, label


@pytest.mark.parametrize("name", GRAPHS)
async def test_other_answers_to_an_older_park_go_the_same_way(pool: Pool, name: str) -> None:
    build, turn = GRAPHS[name]
    graph = build()
    results = []
    for world in (
        StockWorld(pool, f"s{uuid4().hex[:8]}", graph),
        OurWorld(pool, await add_thread(pool), graph, _sometimes(3)),
    ):
        await converse(world, [turn, turn])
        results.append([await answer_again(world, point) for point in world.parked_at[:2]])
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["plain", "subgraph_node", "subgraph_with_memory", "parallel", "delta"])
async def test_a_state_that_is_revised_goes_the_same_way(pool: Pool, name: str) -> None:
    build, turn = GRAPHS[name]
    graph = build()
    results = []
    for world in (
        StockWorld(pool, f"s{uuid4().hex[:8]}", graph),
        OurWorld(pool, await add_thread(pool), graph, lambda: False),
    ):
        await converse(world, [turn])
        results.append([*await begin(world, turn), *await revise(world)])
    assert results[0] == results[1]
