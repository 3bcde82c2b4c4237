"""Whatever Redis loses is sent again: it is noticed by the marker, also when there is nothing to send."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from signoff.infra.embedded import EmbeddedValkey
from signoff.infra.postgres.outbox import Outbox
from signoff.infra.redis.event_stream import MARKER, STREAM, EventStream
from signoff.infra.redis.publishing import PublishEvents
from tests.support.streams import World, drained, open_world, settled

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url, event_retention_seconds=3600) as world:
        yield world


@pytest.fixture
async def publisher(world: World) -> PublishEvents:
    return world.publisher()


class Killed(BaseException):
    """What a process meets that is killed just then."""


async def _killed(*_: Any, **__: Any) -> None:
    raise Killed


async def test_after_flushall_the_whole_window_is_sent_again(world: World, publisher: PublishEvents) -> None:
    await world.tell("one", "two")
    await drained(publisher)
    await world.redis.flushall()

    await drained(publisher)

    assert await world.sent_subjects() == ["one", "two"]


async def test_what_is_older_than_the_window_is_not_sent_again(world: World, publisher: PublishEvents) -> None:
    await world.tell("old", "new")
    await drained(publisher)
    async with world.store.begin() as tx:
        await tx.conn.execute(
            "UPDATE signoff.events SET at = at - interval '2 hours', published_at = published_at - interval '2 hours'"
            " WHERE subject = 'old'"
        )
    await world.redis.flushall()

    await drained(publisher)

    assert await world.sent_subjects() == ["new"]


@pytest.mark.parametrize("key", [STREAM, MARKER])
async def test_the_stream_or_the_marker_alone_is_missed_too(world: World, publisher: PublishEvents, key: str) -> None:
    await world.tell("one")
    await drained(publisher)
    await world.redis.delete(key)

    await drained(publisher)

    assert (await world.sent_subjects())[-1] == "one"
    assert await world.unsent() == 0


async def test_an_emptied_redis_with_nothing_to_send_again_comes_to_rest(
    world: World, publisher: PublishEvents
) -> None:
    await world.tell("one")
    await drained(publisher)
    async with world.store.begin() as tx:
        await tx.conn.execute("DELETE FROM signoff.events")
    await world.redis.delete(STREAM)

    await drained(publisher, most=3)


@pytest.mark.parametrize("keep_data", [False, True])
async def test_after_a_restart_of_redis_nothing_is_missing(database_url: str, keep_data: bool) -> None:
    with EmbeddedValkey() as server:
        async with open_world(database_url, server.url) as world:
            publisher = world.publisher()
            await world.tell("one", "two")
            await drained(publisher)
            server.restart(keep_data=keep_data)

            await settled(publisher)

            assert set(await world.sent_subjects()) == {"one", "two"}


async def test_a_redis_that_comes_back_without_its_last_seconds_gets_them_again(database_url: str) -> None:
    with EmbeddedValkey() as server:
        async with open_world(database_url, server.url) as world:
            publisher = world.publisher()
            await world.tell("before")
            await drained(publisher)
            stream, marker = await world.redis.dump(STREAM), await world.redis.dump(MARKER)
            await world.tell("after")
            await drained(publisher)

            server.restart(keep_data=False)
            await world.redis.connection_pool.disconnect()
            await world.redis.restore(STREAM, 0, stream)
            await world.redis.restore(MARKER, 0, marker)
            await settled(publisher)

            assert set(await world.sent_subjects()) == {"before", "after"}


async def test_after_a_restart_only_what_may_be_missing_is_sent_again(world: World, publisher: PublishEvents) -> None:
    await world.tell("long ago")
    await drained(publisher)
    async with world.store.begin() as tx:
        await tx.conn.execute("UPDATE signoff.events SET published_at = published_at - interval '10 minutes'")
    await world.tell("just now")
    await drained(publisher)
    await world.redis.hset(MARKER, "server", "another run")

    await drained(publisher)

    assert await world.sent_subjects() == ["long ago", "just now", "just now"]


@pytest.mark.parametrize("where", ["suspend", "send_again", "release"])
async def test_killed_anywhere_while_events_are_taken_back_nothing_is_lost(
    world: World, publisher: PublishEvents, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    await world.tell("one", "two")
    await drained(publisher)
    await world.redis.flushall()
    with monkeypatch.context() as patch:
        patch.setattr(Outbox if where == "send_again" else EventStream, where, _killed)
        with pytest.raises(Killed):
            await publisher.step()

    second = world.publisher()
    await drained(second)

    assert await world.sent_subjects() == ["one", "two"]


@pytest.mark.parametrize("noticed", [False, True])
async def test_emptied_again_while_events_are_taken_back(
    world: World, publisher: PublishEvents, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """Meanwhile another publisher sent events that the second loss took; it notices that too, and is killed."""
    await world.tell("one", "two")
    await drained(publisher)
    await world.redis.flushall()
    release = EventStream.release
    other = world.publisher()

    async def late(self: EventStream, token: str) -> bool:
        monkeypatch.setattr(EventStream, "release", release)
        await drained(other)
        assert await world.unsent() == 0
        await world.redis.flushall()
        if noticed:
            with monkeypatch.context() as patch:
                patch.setattr(Outbox, "send_again", _killed)
                with pytest.raises(Killed):
                    await other.step()
        return await release(self, token)

    monkeypatch.setattr(EventStream, "release", late)
    await drained(publisher)

    assert await world.sent_subjects() == ["one", "two"]


async def test_a_publisher_that_appended_before_the_loss_can_not_hide_it(
    world: World, publisher: PublishEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It marks its events as sent after Redis was emptied; nobody takes events back before that is committed."""
    await drained(publisher)
    await world.tell("one")
    mark_sent, other = Outbox.mark_sent, world.publisher()

    async def late(self: Outbox, batch: Any, at: datetime) -> None:
        await world.redis.flushall()
        assert not await other.step()
        await mark_sent(self, batch, at)

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "mark_sent", late)
        await publisher.step()
    assert await world.sent_subjects() == []

    await drained(other)

    assert await world.sent_subjects() == ["one"]


async def test_many_events_are_taken_back_in_small_transactions(
    world: World, publisher: PublishEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"event {number}" for number in range(25)]
    await world.tell(*names)
    await drained(publisher)
    monkeypatch.setattr("signoff.infra.redis.publishing.MOST_UNSENT", 10)
    await world.redis.flushall()

    await drained(publisher)

    assert await world.sent_subjects() == names
