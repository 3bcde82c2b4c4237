"""Activities that are in no hurry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from signoff.workers.dispatcher import Seldom

pytestmark = pytest.mark.anyio


class Batches:
    def __init__(self, *more: bool) -> None:
        self._more: Iterator[bool] = iter(more)
        self.steps = 0

    async def step(self) -> bool:
        self.steps += 1
        return next(self._more)


async def test_it_goes_on_while_there_is_more_and_then_waits() -> None:
    batches = Batches(True, True, False)
    seldom = Seldom(batches, 3600.0)
    assert [await seldom.step() for _ in range(5)] == [True, True, False, False, False]
    assert batches.steps == 3


async def test_it_looks_again_once_the_time_has_passed() -> None:
    batches = Batches(False, False)
    seldom = Seldom(batches, 0.0)
    assert [await seldom.step() for _ in range(2)] == [False, False]
    assert batches.steps == 2
