"""Events reach the stream at least once, each job's in order, and none is overtaken for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from signoff.domain.errors import BrokerUnavailable
from signoff.domain.events import EventType, NewEvent
from signoff.infra.embedded import EmbeddedValkey
from signoff.infra.postgres.outbox import Batch, Outbox
from signoff.infra.redis.event_stream import STREAM
from signoff.infra.redis.publishing import ForgetOldEvents, PublishEvents
from tests.support.parked import submitted
from tests.support.streams import World, drained, open_world

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url) as world:
        yield world


@pytest.fixture
async def publisher(world: World) -> PublishEvents:
    return world.publisher()


class Killed(BaseException):
    """What a process meets that is killed just then."""


async def test_an_event_is_sent_as_a_cloudevent(world: World, publisher: PublishEvents) -> None:
    job = await submitted(world.store)

    await drained(publisher)

    [event] = await world.sent()
    assert event["specversion"] == "1.0"
    assert event["type"] == "signoff.job.accepted.v1"
    assert event["subject"] == f"jobs/{job.id}"
    assert event["sequence"] == "1"
    assert event["data"]["job_id"] == str(job.id)
    [row] = await world.rows("SELECT id, published_at FROM signoff.events")
    assert event["id"] == str(row["id"])
    assert row["published_at"] is not None


async def test_what_was_sent_is_not_sent_again(world: World, publisher: PublishEvents) -> None:
    await world.tell("one")
    await drained(publisher)

    await drained(publisher)

    assert await world.sent_subjects() == ["one"]


async def test_a_publisher_killed_before_its_commit_sends_twice_and_loses_nothing(
    world: World, publisher: PublishEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.tell("one", "two")
    await publisher.step()

    async def killed(self: Outbox, batch: Batch, at: datetime) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "mark_sent", killed)
        with pytest.raises(Killed):
            await publisher.step()
    assert await world.unsent() == 2
    await drained(publisher)

    assert await world.sent_subjects() == ["one", "two", "one", "two"]
    assert len({event["id"] for event in await world.sent()}) == 2
    assert await world.unsent() == 0


async def test_while_redis_is_down_the_rows_stay(database_url: str) -> None:
    with EmbeddedValkey() as server:
        async with open_world(database_url, server.url) as world:
            publisher = world.publisher()
            await drained(publisher)
            await world.tell("one")
            server.stop()

            with pytest.raises(BrokerUnavailable):
                await publisher.step()
            assert await world.unsent() == 1


async def test_a_full_redis_leaves_the_rows(database_url: str) -> None:
    with EmbeddedValkey() as server:
        async with open_world(database_url, server.url) as world:
            publisher = world.publisher()
            await drained(publisher)
            await world.tell("one")
            await world.redis.config_set("maxmemory", "1")

            with pytest.raises(BrokerUnavailable):
                await publisher.step()
            assert await world.unsent() == 1

            await world.redis.config_set("maxmemory", "0")
            await drained(publisher)
            assert await world.sent_subjects() == ["one"]


async def test_an_event_that_commits_late_is_not_lost(world: World, publisher: PublishEvents) -> None:
    """Its position is lower than that of an event that was sent before."""
    async with world.store.begin() as slow:
        await slow.events.append(NewEvent(EventType.job_retried, "slow", "test", {}))
        await world.tell("quick")
        await drained(publisher)
        assert await world.sent_subjects() == ["quick"]

    await drained(publisher)

    assert await world.sent_subjects() == ["quick", "slow"]
    positions = await world.rows("SELECT subject FROM signoff.events ORDER BY position")
    assert [row["subject"] for row in positions] == ["slow", "quick"]


async def test_events_of_a_job_go_by_their_sequence_also_where_positions_do_not(
    world: World, publisher: PublishEvents
) -> None:
    job = await submitted(world.store)
    await drained(publisher)
    for name in ("second", "third"):
        await world.tell(name, job_id=job.id)
    async with world.store.begin() as tx:
        await tx.conn.execute(
            "UPDATE signoff.events SET sequence = 5 - sequence, subject = 'swapped' WHERE published_at IS NULL"
        )

    await drained(publisher)

    assert [event["sequence"] for event in await world.sent()] == ["1", "2", "3"]


async def test_two_publishers_keep_the_order_of_each_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signoff.infra.redis.publishing.MOST_EVENTS", 3)
    jobs = [await submitted(world.store) for _ in range(3)]
    for number in range(12):
        for job in jobs:
            await world.tell(f"{job.id}/{number}", job_id=job.id)
    publishers = [world.publisher(), world.publisher()]

    async def run(publisher: PublishEvents) -> None:
        for _ in range(200):
            if await world.unsent() == 0:
                return
            await publisher.step()

    await asyncio.gather(*(run(publisher) for publisher in publishers))

    sent = [event for event in await world.sent() if event["type"] == EventType.job_retried]
    assert len(sent) == 36
    for job in jobs:
        own = [int(event["sequence"]) for event in sent if event["subject"].startswith(str(job.id))]
        assert own == sorted(own)


async def test_a_publisher_leaves_the_work_to_the_one_that_is_at_it(world: World, publisher: PublishEvents) -> None:
    await drained(publisher)
    await world.tell("one")
    async with world.store.begin() as other:
        assert await Outbox(other.conn).hold() is not None

        assert not await publisher.step()
        assert await world.unsent() == 1

    assert await publisher.step()


async def test_a_batch_is_bounded_in_bytes(
    world: World, publisher: PublishEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    await drained(publisher)
    await world.tell("one", "two", "three")
    monkeypatch.setattr("signoff.infra.redis.publishing.MOST_BYTES", 1)

    await publisher.step()

    assert await world.sent_subjects() == ["one"]


async def test_old_events_are_forgotten_once_they_were_sent(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.infra.redis.publishing.MOST_FORGOTTEN", 2)
    async with open_world(database_url, redis_url, event_retention_seconds=3600) as world:
        publisher, forget = world.publisher(), ForgetOldEvents(world.store, world.services.settings)
        await world.tell("old-1", "old-2", "old-3", "sent lately", "new")
        await drained(publisher)
        await world.tell("never sent")
        async with world.store.begin() as tx:
            await tx.conn.execute("UPDATE signoff.events SET at = at - interval '2 hours' WHERE subject <> 'new'")
            await tx.conn.execute(
                "UPDATE signoff.events SET published_at = published_at - interval '2 hours' WHERE subject LIKE 'old%%'",
                (),
            )

        assert await forget.step()
        await drained(forget)

        left = await world.rows("SELECT subject FROM signoff.events ORDER BY position")
        assert [row["subject"] for row in left] == ["sent lately", "new", "never sent"]


async def test_old_entries_leave_the_stream(database_url: str, redis_url: str) -> None:
    async with open_world(database_url, redis_url, event_retention_seconds=3600) as world:
        await world.redis.xadd(STREAM, {"event": '{"subject": "ages ago"}'}, id="1000-0")
        await world.redis.config_set("stream-node-max-entries", "1")
        publisher = world.publisher()
        try:
            await world.tell("one")
            await drained(publisher)
        finally:
            await world.redis.config_set("stream-node-max-entries", "100")

        assert await world.sent_subjects() == ["one"]
