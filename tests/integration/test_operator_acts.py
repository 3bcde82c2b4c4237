"""What an operator asks for is done once for its request id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from signoff.domain.errors import IdempotencyMismatch, InvalidRequest, RightMissing
from signoff.domain.operator_acts import Done, OperatorAct, once
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.parked import OPERATOR, REVIEWER
from tests.support.reviewing import rows

pytestmark = pytest.mark.anyio

ACT = OperatorAct(OPERATOR, "test.act", "effects/op_1", "it must be", "request-1", {"to": "ada"}, None)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


class Deed:
    """Counts how often it was done."""

    def __init__(self) -> None:
        self.done = 0

    async def __call__(self) -> Mapping[str, Any]:
        self.done += 1
        return {"done": self.done}

    async def ask(self, store: PostgresStore, act: OperatorAct = ACT) -> Done:
        async with store.begin() as tx:
            return await once(tx, act, self)


class Slow(Deed):
    """Takes so long that another would be done beside it, if it could."""

    def __init__(self) -> None:
        super().__init__()
        self._beside = asyncio.Event()

    async def __call__(self) -> Mapping[str, Any]:
        outcome = await super().__call__()
        if self.done > 1:
            self._beside.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._beside.wait(), 0.5)
        return outcome


async def test_the_same_request_is_answered_and_not_done_again(store: PostgresStore) -> None:
    deed = Deed()
    assert await deed.ask(store) == Done({"done": 1}, repeated=False)
    assert await deed.ask(store) == Done({"done": 1}, repeated=True)
    assert await deed.ask(store, replace(ACT, request_id="request-2")) == Done({"done": 2}, repeated=False)
    (first, _) = await rows(store, "SELECT * FROM signoff.operator_acts ORDER BY position")
    assert (first["actor"], first["reason"], first["body"]) == ("olga", "it must be", {"to": "ada"})
    (audited,) = await rows(store, "SELECT actor FROM signoff.audit WHERE body->>'request' = 'request-1'")
    assert audited["actor"] == "olga"


async def test_many_at_once_act_once(store: PostgresStore) -> None:
    deed = Slow()
    answers = await asyncio.gather(*(deed.ask(store) for _ in range(5)))
    assert deed.done == 1
    assert sorted(answer.repeated for answer in answers) == [False, True, True, True, True]


@pytest.mark.parametrize("other", [{"act": "other.act"}, {"subject": "x"}, {"reason": "why not"}, {"body": {}}])
async def test_the_same_id_with_another_request_is_refused(store: PostgresStore, other: dict[str, Any]) -> None:
    deed = Deed()
    await deed.ask(store)
    with pytest.raises(IdempotencyMismatch):
        await deed.ask(store, replace(ACT, **other))
    assert deed.done == 1


async def test_an_act_that_failed_can_be_asked_for_again(store: PostgresStore) -> None:
    async def fail() -> Mapping[str, Any]:
        raise InvalidRequest("not like this")

    with pytest.raises(InvalidRequest):
        async with store.begin() as tx:
            await once(tx, ACT, fail)
    assert not (await Deed().ask(store)).repeated


async def test_without_an_id_each_is_an_act_of_its_own(store: PostgresStore) -> None:
    deed = Deed()
    for _ in range(2):
        await deed.ask(store, replace(ACT, request_id=None))
    assert deed.done == 2


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"who": REVIEWER}, RightMissing),
        ({"reason": " "}, InvalidRequest),
        ({"reason": "x" * 2001}, InvalidRequest),
        ({"request_id": ""}, InvalidRequest),
        ({"request_id": "a\0b"}, InvalidRequest),
    ],
)
async def test_what_is_not_in_order_is_not_done(
    store: PostgresStore, other: dict[str, Any], error: type[Exception]
) -> None:
    deed = Deed()
    with pytest.raises(error):
        await deed.ask(store, replace(ACT, **other))
    assert deed.done == 0
