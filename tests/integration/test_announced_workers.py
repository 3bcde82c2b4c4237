"""A worker says that it is there, hears that it shall drain, and says goodbye; who says nothing is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.workers import Presence
from signoff.workers.heartbeat import Announced, Heartbeat
from signoff.workers.holding_upkeep import ForgetOldWorkers
from tests.support.api import open_store, until

pytestmark = pytest.mark.anyio

NAME = "host:1:abc"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


@pytest.fixture
def told() -> Event:
    return Event()


@pytest.fixture
def heartbeat(database_url: str, told: Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heartbeat]:
    monkeypatch.setattr("signoff.workers.heartbeat.SECONDS_BETWEEN_ANNOUNCEMENTS", 0.05)
    monkeypatch.setattr("signoff.workers.heartbeat.LONGEST_LOOK_SECONDS", 0.05)
    announced = Announced(Presence(NAME, ["desk"], "1.0"), told.set, told.is_set)
    heartbeat = Heartbeat(database_url, timedelta(seconds=30), lambda: None, announced)
    heartbeat.start()
    yield heartbeat
    heartbeat.stop()


async def row_of(store: PostgresStore) -> dict[str, Any] | None:
    async with store.connection() as conn:
        return await (await conn.execute("SELECT * FROM signoff.workers WHERE name = %s", (NAME,))).fetchone()


async def test_from_its_first_word_to_its_last(store: PostgresStore, heartbeat: Heartbeat, told: Event) -> None:
    there = await until(lambda: row_of(store))
    assert (there["agents"], there["version"], there["drained_at"], there["stopped_at"]) == (
        ["desk"],
        "1.0",
        None,
        None,
    )
    assert abs(there["clock_offset_seconds"]) < 1.0, "the same clock"

    async def seen_again() -> bool:
        row = await row_of(store)
        return row is not None and row["seen_at"] > there["seen_at"]

    assert await until(seen_again)
    assert not told.is_set()
    async with store.begin() as tx:
        assert await tx.workers.ask_to_drain(NAME, None, "olga") == [NAME]

    async def drained() -> dict[str, Any] | None:
        row = await row_of(store)
        return row if row is not None and row["drained_at"] is not None else None

    assert (await until(drained))["drain_requested_by"] == "olga"
    assert told.is_set()
    heartbeat.stop()
    stopped = await row_of(store)
    assert stopped is not None
    assert stopped["stopped_at"] is not None
    async with store.begin() as tx:
        assert await tx.workers.ask_to_drain(NAME, None, "olga") == [], "it is gone"


async def test_who_is_not_seen_for_a_day_is_forgotten(store: PostgresStore) -> None:
    async with store.connection() as conn:
        await conn.execute(
            "INSERT INTO signoff.workers (name, agents, version, seen_at) VALUES"
            " ('old', '{}', '1', now() - interval '25 hours'), ('new', '{}', '1', now() - interval '23 hours')"
        )
    await ForgetOldWorkers(store).step()
    async with store.connection() as conn:
        rows = await (await conn.execute("SELECT name FROM signoff.workers")).fetchall()
    assert [row["name"] for row in rows] == ["new"]
