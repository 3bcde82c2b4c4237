"""Sending again, disabling and enabling, and forgetting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from signoff.domain.errors import InvalidRequest, RightMissing, SendingNotFound, SubscriptionDisabled
from signoff.domain.sendings import SendingStatus
from signoff.infra.postgres.sendings import Range
from signoff.infra.webhooks.subscribing import disable_subscription, enable_subscription, send_again
from signoff.workers.sending import ForgetOldSendings
from tests.support.outgoing import Outgoing, database_of_module, open_outgoing
from tests.support.parked import OPERATOR, PRODUCER
from tests.support.receiver import Answer
from tests.support.savers import Server

pytestmark = pytest.mark.anyio

DEAD = Range(status=SendingStatus.dead)


@pytest.fixture(scope="module")
def database(postgres_server: Server, template_database: str) -> Iterator[str]:
    with database_of_module(postgres_server, template_database) as url:
        yield url


@pytest.fixture
async def out(database: str) -> AsyncIterator[Outgoing]:
    async with open_outgoing(database) as out:
        await out.subscribe()
        await out.tell("one", "two", "three")
        yield out


async def ask(out: Outgoing, wanted: Range, *, dry_run: bool = False) -> int:
    return await send_again(out.store, "billing", OPERATOR, wanted, dry_run=dry_run)


async def give_up(out: Outgoing, subject: str) -> None:
    await out.rows(
        "UPDATE signoff.sendings SET status = 'dead', tries = 10 WHERE body::json ->> 'subject' = %s RETURNING 1",
        subject,
    )


async def test_what_is_dead_is_sent_again_once(out: Outgoing) -> None:
    await out.fan_out()
    await give_up(out, "two")
    await out.send()
    assert sorted(out.subjects()) == ["one", "three"]
    assert [await ask(out, DEAD, dry_run=True), await ask(out, DEAD), await ask(out, DEAD)] == [1, 1, 0]
    await out.send()
    assert out.subjects()[2:] == ["two"]
    assert await ask(out, DEAD) == 0
    (row,) = await out.rows("SELECT tries FROM signoff.sendings WHERE body::json ->> 'subject' = 'two'")
    assert row["tries"] == 1, "with its whole schedule"


async def test_one_by_its_id_and_a_stretch_of_time(out: Outgoing) -> None:
    await out.send()
    first = (await out.sendings())[0]
    assert [await ask(out, Range(sending_id=first["id"])) for _ in range(2)] == [1, 0]
    await out.send()
    assert out.receiver.log[-1].id == str(first["event_id"])
    await out.rows(
        "UPDATE signoff.sendings SET created_at = created_at - interval '1 day' WHERE id = %s RETURNING 1", first["id"]
    )
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert await ask(out, Range(until=hour_ago), dry_run=True) == 1
    assert await ask(out, Range(since=hour_ago), dry_run=True) == 2
    assert await ask(out, Range(since=hour_ago, status=SendingStatus.dead), dry_run=True) == 0
    assert await ask(out, Range(since=hour_ago)) == 2
    await out.send()
    assert len(out.receiver.log) == 6
    assert len(set(out.receiver.ids())) == 3


async def test_what_is_refused(out: Outgoing) -> None:
    await out.send()
    with pytest.raises(InvalidRequest):
        await ask(out, Range())
    with pytest.raises(SendingNotFound):
        await ask(out, Range(sending_id=uuid4()))
    with pytest.raises(RightMissing):
        await send_again(out.store, "billing", PRODUCER, DEAD)
    await disable_subscription(out.store, "billing", OPERATOR, "moving")
    with pytest.raises(SubscriptionDisabled):
        await ask(out, Range(status=SendingStatus.sent))


async def test_a_disabled_one_waits_and_goes_on_where_it_stopped(out: Outgoing) -> None:
    out.receiver.otherwise = Answer(500)
    await out.send()
    await disable_subscription(out.store, "billing", OPERATOR, "moving")
    out.receiver.otherwise = Answer()
    await out.tell("four")
    await out.later()
    await out.send()
    assert len(out.receiver.log) == 3
    await enable_subscription(out.store, "billing", OPERATOR)
    await out.send()
    assert sorted(out.subjects()[3:]) == ["four", "one", "three", "two"]
    assert {row["tries"] for row in await out.sendings()} == {1}


async def test_what_was_sent_long_ago_is_forgotten_and_what_is_dead_stays(out: Outgoing) -> None:
    await out.fan_out()
    await give_up(out, "two")
    await out.send()
    await out.rows(
        "UPDATE signoff.sendings SET sent_at = sent_at - interval '30 days 1 minute',"
        " created_at = created_at - interval '40 days' WHERE body::json ->> 'subject' <> 'three' RETURNING 1"
    )
    assert await ForgetOldSendings(out.store).step() is False
    left = await out.rows("SELECT body::json ->> 'subject' AS name FROM signoff.sendings ORDER BY 1")
    assert [row["name"] for row in left] == ["three", "two"]
