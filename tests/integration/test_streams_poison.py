"""Entries that can't be read or that kill their consumers: set aside with their bytes, and the queue goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from signoff.domain.errors import StoreUnavailable, Unavailable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.infra.redis.inbound_stream import GROUP
from signoff.infra.redis.intake import JOBS, MOST_DELIVERIES, TakeJobs
from signoff.infra.redis.taking import Intake
from tests.support.parked import AGENT
from tests.support.streams import World, drained, open_world

pytestmark = pytest.mark.anyio

BODY = {"agent": AGENT, "input": "Refund order A-1"}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url, http_max_body_bytes=10_000) as world:
        yield world


@pytest.fixture
async def taker(world: World) -> TakeJobs:
    return world.jobs_taker()


class Killed(BaseException):
    """What a process meets that is killed just then."""


def job(**changes: Any) -> dict[str, Any]:
    return {"job": json.dumps({**BODY, **changes})}


async def _jobs(world: World) -> list[dict[str, Any]]:
    return await world.rows("SELECT * FROM signoff.jobs ORDER BY created_at")


async def _pending(world: World) -> int:
    return int((await world.redis.xpending(JOBS, GROUP))["pending"])


UNREADABLE: list[tuple[dict[str, bytes], bytes]] = [
    ({"job": b"not json"}, b"not json"),
    ({"job": b""}, b""),
    ({"job": b"\xff\xfe\x00"}, b"\xff\xfe\x00"),
    ({"job": b'{"agent": "a", "agent": "b"}'}, b'{"agent": "a", "agent": "b"}'),
    ({"job": b"[" * 2000}, b"[" * 2000),
    ({"job": b"x" * 20_000}, b"x" * 10_000),
    ({"text": b"\xff?"}, b'{"text": "\\u00ff?"}'),
]


@pytest.mark.parametrize(("fields", "kept"), UNREADABLE)
async def test_what_can_not_be_read_is_set_aside_and_the_queue_goes_on(
    world: World, taker: TakeJobs, fields: dict[str, bytes], kept: bytes
) -> None:
    entry_id = (await world.redis.xadd(JOBS, fields)).decode()
    await world.redis.xadd(JOBS, job())

    await drained(taker)

    assert await world.poison() == [(entry_id, kept)]
    assert len(await _jobs(world)) == 1
    assert [refusal["entry_id"] for refusal in await world.refusals()] == [entry_id]
    assert await _pending(world) == 0


class Away(PostgresStore):
    """A database that can't be reached."""

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        raise StoreUnavailable("away")
        yield


async def test_while_the_database_is_away_entries_wait_however_long(world: World) -> None:
    taker = world.jobs_taker(Away(world.services.pool))
    for number in range(3):
        await world.redis.xadd(JOBS, job(input=f"job {number}"))
    for _ in range(4 * MOST_DELIVERIES):
        with pytest.raises(Unavailable):
            await drained(taker)
    await taker.close()

    second = world.jobs_taker()
    await drained(second)

    assert {found["input"] for found in await _jobs(world)} == {"job 0", "job 1", "job 2"}
    assert await world.poison() == []


async def test_an_entry_that_kills_its_consumers_is_set_aside_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await world.redis.xadd(JOBS, job(input=text)) for text in ("deadly", "good", "good too")]
    take_job = Intake.take_job

    async def deadly(self: Intake, origin: Any, body: bytes, *rest: Any) -> None:
        if b"deadly" in body:
            raise Killed
        await take_job(self, origin, body, *rest)

    monkeypatch.setattr(Intake, "take_job", deadly)
    for _ in range(MOST_DELIVERIES):
        taker = world.jobs_taker()
        with pytest.raises(Killed):
            await drained(taker)
        await taker.close()
        for entry_id in ids:
            await world.abandon(JOBS, entry_id)
    last = world.jobs_taker()
    await drained(last)

    assert [entry for entry, _ in await world.poison()] == [ids[0].decode()]
    assert {found["input"] for found in await _jobs(world)} == {"good", "good too"}
    assert await _pending(world) == 0


async def test_an_error_that_nobody_foresaw_is_tried_again_and_then_set_aside(
    world: World, taker: TakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("a mistake of ours")

    entry_id = await world.redis.xadd(JOBS, job())
    monkeypatch.setattr(Intake, "take_job", broken)
    for delivery in range(MOST_DELIVERIES):
        assert await world.poison() == [], delivery
        another = world.jobs_taker()
        await drained(another)
        await another.close()
        await world.abandon(JOBS, entry_id)

    [row] = await world.rows("SELECT * FROM signoff.poison_messages")
    assert "a mistake of ours" in row["error"]
    assert row["body"] == json.dumps(BODY).encode()
