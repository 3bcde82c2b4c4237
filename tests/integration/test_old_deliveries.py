"""The dispatcher forgets the ids of old deliveries, and none that may still be sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from signoff.domain.errors import DeliveryMismatch
from signoff.infra.postgres.store import PostgresStore
from signoff.workers.dispatcher import ForgetOldDeliveries
from tests.support.streams import ENDPOINT, World, open_world

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url) as world:
        yield world


async def received(store: PostgresStore, *ids: str, ago: timedelta) -> None:
    async with store.begin() as tx:
        for one in ids:
            await tx.deliveries.remember(ENDPOINT, one, "digest")
        await tx.conn.execute(
            "UPDATE signoff.deliveries SET received_at = clock_timestamp() - %s WHERE id = ANY(%s)", (ago, list(ids))
        )


async def test_old_ones_are_forgotten_in_small_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signoff.workers.dispatcher.BATCH", 2)
    await received(world.store, "a", "b", "c", ago=timedelta(days=8, minutes=1))
    await received(world.store, "tried-for-75-hours", ago=timedelta(hours=76))
    await received(world.store, "a-week-old", ago=timedelta(days=7, hours=23))
    forget = ForgetOldDeliveries(world.store)

    assert [await forget.step(), await forget.step()] == [True, False]

    left = await world.rows("SELECT id FROM signoff.deliveries ORDER BY received_at")
    assert [row["id"] for row in left] == ["a-week-old", "tried-for-75-hours"]
    with pytest.raises(DeliveryMismatch):
        async with world.store.begin() as tx:
            await tx.deliveries.remember(ENDPOINT, "tried-for-75-hours", "another")
