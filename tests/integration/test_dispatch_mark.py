"""The mark of a dispatch, in the ledger itself: from where it can be made, and of which call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from signoff.domain.effects import Effect, EffectStatus, Step, Terms
from signoff.domain.errors import LeaseLost
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.parked import claimed
from tests.support.paying import Provider
from tests.support.paying_desk import APPROVE, PayingDesk

pytestmark = pytest.mark.anyio

S = EffectStatus


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


async def planned(store: PostgresStore) -> tuple[Effect, int]:
    """An approved effect that has not left, and the fence of the run that is to send it."""
    desk = PayingDesk(store, Provider(), "opaque", "ada")
    parked = await desk.open()
    await desk.say(parked.id, APPROVE)
    (effect,) = await desk.effects(parked.id)
    return effect, (await claimed(store, parked.id)).fence


async def dispatch(store: PostgresStore, effect: Effect, fence: int) -> Effect:
    async with store.begin() as tx:
        return await tx.effects.dispatch(effect, Terms(), fence=fence, worker="worker-1")


async def test_what_was_sent_is_not_sent_from_there_again(store: PostgresStore) -> None:
    effect, fence = await planned(store)
    sent = await dispatch(store, effect, fence)
    assert (sent.status, sent.attempts) == (S.dispatched, 1)
    with pytest.raises(LeaseLost):
        await dispatch(store, effect, fence)
    async with store.begin() as tx:
        assert await tx.effects.move(sent, Step(S.in_doubt, doubt=True), actor="worker-1")
    with pytest.raises(LeaseLost):
        await dispatch(store, effect, fence)


async def test_another_call_is_not_sent_in_its_place(store: PostgresStore) -> None:
    effect, fence = await planned(store)
    with pytest.raises(LeaseLost):
        await dispatch(store, replace(effect, digest="another"), fence)
