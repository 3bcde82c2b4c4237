"""Events on their way to a receiver: signed, at least once, each job's in order, within limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from email.utils import formatdate

import pytest
from standardwebhooks import Webhook

from signoff.domain.events import EventType, NewEvent
from signoff.domain.sendings import DELAYS, MOST_TRIES
from signoff.infra.postgres.sendings import SendingTable
from signoff.infra.webhooks.subscribing import rotate_secret
from tests.support.api import until
from tests.support.outgoing import Outgoing, database_of_module, open_outgoing
from tests.support.parked import OPERATOR, parked, refund
from tests.support.receiver import Answer, Received
from tests.support.savers import Server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def database(postgres_server: Server, template_database: str) -> Iterator[str]:
    with database_of_module(postgres_server, template_database) as url:
        yield url


@pytest.fixture
async def out(database: str) -> AsyncIterator[Outgoing]:
    async with open_outgoing(database) as out:
        yield out


def verified(secret: str | None, request: Received) -> bool:
    assert secret is not None
    Webhook(secret).verify(request.body, dict(request.headers))
    return True


async def test_an_event_arrives_signed_as_a_cloudevent(out: Outgoing) -> None:
    created = await out.subscribe()
    job = await parked(out.store)
    await out.send()
    types = [request.event["type"] for request in out.receiver.log]
    assert types == ["signoff.job.accepted.v1", "signoff.review.requested.v1"]
    request = out.receiver.log[1]
    assert verified(created.secret, request)
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.headers["host"] == f"127.0.0.1:{out.receiver.port}"
    assert request.id == request.event["id"]
    assert request.event["data"]["review_id"] == str(job.review_id)
    assert [row["status"] for row in await out.sendings()] == ["sent", "sent"]


async def test_only_from_now_on_unless_asked_otherwise(out: Outgoing) -> None:
    await out.tell("before")
    await out.subscribe("from-now")
    await out.tell("after")
    await out.send()
    assert out.subjects() == ["after"]
    await out.subscribe("from-start", after="start")
    await out.send()
    assert out.subjects() == ["after", "before", "after"]
    (cursor,) = {row["event_cursor"] for row in await out.sendings() if "before" in row["body"]}
    await out.subscribe("from-a-cursor", after=cursor)
    await out.send()
    assert out.subjects()[3:] == ["after"]


async def test_an_event_that_is_committed_late_is_not_skipped(out: Outgoing) -> None:
    async with out.store.begin() as slow:
        await slow.events.append(NewEvent(EventType.job_retried, "began-before", "test", {}))
        await out.tell("ended-meanwhile")
        await out.subscribe()
        await out.tell("quick")
        await out.send()
    await out.send()
    assert {"began-before", "quick"} <= set(out.subjects())


async def test_only_what_the_filter_wants(out: Outgoing) -> None:
    await out.subscribe("finance", event_types=["signoff.review.*"], filter={"groups": ["finance"], "tool": ["ref*"]})
    await out.subscribe("legal", event_types=["signoff.review.*"], filter={"groups": ["legal"]})
    await out.subscribe("desk", event_types=["signoff.job.accepted.v1"], filter={"agent": ["desk"]})
    await parked(out.store)
    await parked(out.store, refund(tool="send_email", rule="mails"))
    await out.send()
    names = await out.rows(
        "SELECT n.name, s.event_type FROM signoff.sendings s JOIN signoff.subscriptions n ON n.id = s.subscription_id"
        " ORDER BY 1, 2"
    )
    accepted, requested = "signoff.job.accepted.v1", "signoff.review.requested.v1"
    assert [tuple(row.values()) for row in names] == [("desk", accepted), ("desk", accepted), ("finance", requested)]


async def test_what_fails_is_sent_again_with_the_same_id_and_a_new_time(out: Outgoing) -> None:
    await out.subscribe()
    await out.tell("one")
    out.receiver.answers.extend([Answer(500), Answer(drop=True), Answer(302, {"Location": out.receiver.url})])
    waits = []
    for _ in range(3):
        await out.send()
        (row,) = await out.sendings()
        waits.append(row["due_in"])
        assert row["status"] == "pending"
        await out.later()
    await out.send()
    assert waits == [pytest.approx(delay.total_seconds(), abs=2) for delay in DELAYS[:3]]
    assert len(out.receiver.log) == 4, "a redirect is not followed"
    assert len(set(out.receiver.ids())) == 1
    (row,) = await out.sendings()
    assert (row["status"], row["attempts"], row["last_status"], row["last_error"]) == ("sent", 4, 204, None)


async def test_after_the_last_try_it_is_dead_and_the_next_one_goes(out: Outgoing) -> None:
    job_id = await out.job()
    await out.subscribe()
    await out.tell("one", "two", job_id=job_id)
    await out.fan_out()
    await out.rows("UPDATE signoff.sendings SET tries = %s RETURNING 1", MOST_TRIES - 1)
    out.receiver.answers.append(Answer(404))
    await out.send()
    assert await out.statuses() == ["dead", "sent"]
    assert (await out.sendings())[0]["last_error"] == "answered 404"


async def test_a_receiver_that_is_gone_is_disabled(out: Outgoing) -> None:
    created = await out.subscribe(event_types=["signoff.job.*"])
    await out.subscribe("watch", event_types=["signoff.subscription.*"])
    out.receiver.answers.append(Answer(410))
    await out.tell("one")
    await out.send()
    await out.tell("two")
    await out.send()
    (row,) = await out.rows("SELECT * FROM signoff.subscriptions WHERE id = %s", created.id)
    assert (row["disabled_by"], row["disabled_reason"]) == ("signoff", "the receiver answered 410: it is gone")
    told = out.receiver.log[-1].event
    assert (told["type"], told["data"]["name"]) == ("signoff.subscription.disabled.v1", "billing")
    assert len(out.receiver.log) == 2
    assert sorted(await out.statuses()) == ["dead", "sent"]


@pytest.mark.parametrize(
    ("header", "seconds"), [("120", 120), (formatdate(4102444800, usegmt=True), 86400), ("999999", 86400)]
)
async def test_a_receiver_says_when_to_come_back(out: Outgoing, header: str, seconds: int) -> None:
    await out.subscribe()
    await out.tell("one")
    out.receiver.answers.append(Answer(429, {"Retry-After": header}))
    await out.send()
    (row,) = await out.sendings()
    assert row["due_in"] == pytest.approx(seconds, abs=5)
    assert (row["attempts"], row["tries"]) == (1, 0), "the schedule is not used up"


async def test_a_job_keeps_its_order_and_others_go_on(out: Outgoing) -> None:
    first, second = await out.job(), await out.job()
    await out.subscribe()
    await out.tell("a1", "a2", "a3", job_id=first)
    await out.tell("b1", "b2", job_id=second)
    out.receiver.answers.append(Answer(500))
    await out.send()
    # Whichever came first has failed; its job waits, the other's is through.
    waiting = out.subjects()[0][0]
    assert [name for name in out.subjects() if name[0] == waiting] == [f"{waiting}1"]
    await out.tell("a4", job_id=first)
    await out.later()
    await out.send()
    for letter, count in (("a", 4), ("b", 2)):
        own = list(dict.fromkeys(name for name in out.subjects() if name[0] == letter))
        assert own == [f"{letter}{number}" for number in range(1, count + 1)]
    assert set(await out.statuses()) == {"sent"}


async def test_two_dispatchers_send_nothing_twice(out: Outgoing) -> None:
    jobs = [await out.job() for _ in range(6)]
    await out.subscribe()
    for job_id in jobs:
        await out.tell("1", "2", "3", job_id=job_id)
    await asyncio.gather(*(out.send(out.sender()) for _ in range(3)))
    await out.send()
    assert len(out.receiver.log) == len(set(out.receiver.ids())) == 18


async def test_what_was_sent_and_not_recorded_is_sent_again_with_the_same_id(
    out: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await out.subscribe()
    await out.tell("one")
    with monkeypatch.context() as patch:
        patch.setattr(SendingTable, "record", _crash)
        await out.send()
    await out.send()
    assert len(out.receiver.log) == 1, "the lease still holds"
    await out.later()
    await out.send()
    assert len(out.receiver.log) == 2
    assert len(set(out.receiver.ids())) == 1
    assert await out.statuses() == ["sent"]


async def _crash(*_: object) -> bool:
    raise RuntimeError("the process died here")


@pytest.mark.parametrize(("late", "status"), [(500, "pending"), (204, "sent")])
async def test_of_what_comes_after_the_lease_only_success_counts(out: Outgoing, late: int, status: str) -> None:
    release = asyncio.Event()
    await out.subscribe()
    await out.tell("one")
    out.receiver.answers.extend([Answer(late, until=release), Answer(503)])
    slow = out.sender()
    await out.fan_out()
    assert await slow.step()
    await until(lambda: _count(out, 1))
    await out.later()
    await out.send()
    release.set()
    await slow.close()
    (row,) = await out.sendings()
    assert (row["status"], row["attempts"]) == (status, 2)
    if status == "pending":
        assert row["due_in"] == pytest.approx(DELAYS[1].total_seconds(), abs=5), "as the second try left it"


async def _count(out: Outgoing, count: int) -> bool:
    return len(out.receiver.log) == count


async def test_an_old_secret_signs_too_until_it_ends(out: Outgoing) -> None:
    first = await out.subscribe()
    second = await rotate_secret(out.store, "billing", OPERATOR, timedelta(hours=1))
    await out.tell("one")
    await out.send()
    assert verified(first.secret, out.receiver.log[0])
    assert verified(second.secret, out.receiver.log[0])
    third = await rotate_secret(out.store, "billing", OPERATOR, timedelta())
    await out.tell("two")
    await out.send()
    assert verified(third.secret, out.receiver.log[1])
    assert len(out.receiver.log[1].headers["webhook-signature"].split()) == 1


async def test_a_huge_answer_is_not_read_and_counts_by_its_status(out: Outgoing) -> None:
    await out.subscribe()
    await out.tell("one", "two")
    out.receiver.answers.extend([Answer(200, endless=True), Answer(200, body_bytes=100_000)])
    await out.send()
    assert await out.statuses() == ["sent", "sent"]


async def test_a_receiver_that_does_not_answer(out: Outgoing) -> None:
    never = asyncio.Event()
    await out.subscribe()
    await out.tell("one")
    out.receiver.answers.append(Answer(until=never))
    await out.send(out.sender(timeout_seconds=0.2))
    never.set()
    (row,) = await out.sendings()
    assert (row["status"], row["last_status"], row["last_error"]) == ("pending", None, "no answer within 0.2 s")


async def test_an_event_that_is_too_large_is_never_sent(out: Outgoing) -> None:
    await out.subscribe()
    await out.tell("x" * 1_000_001)
    await out.send()
    assert (await out.statuses(), out.receiver.log) == (["dead"], [])


async def test_a_name_that_leads_inside_is_not_connected_to(out: Outgoing) -> None:
    async def inside(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    await out.subscribe(target=f"https://receiver.test:{out.receiver.port}/", allow_private=False)
    await out.tell("one")
    await out.send(out.sender(resolve=inside))
    (row,) = await out.sendings()
    assert (row["status"], out.receiver.log) == ("pending", [])
    assert "not of the public internet" in row["last_error"]


async def test_the_connection_goes_to_the_address_that_was_checked(out: Outgoing) -> None:
    asked = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return ["127.0.0.2", "127.0.0.1"]  # nobody listens at the first

    await out.subscribe(target=f"http://receiver.test:{out.receiver.port}/hook?a=1")
    await out.tell("one")
    await out.send(out.sender(resolve=resolve))
    assert asked == [("receiver.test", out.receiver.port)]
    (request,) = out.receiver.log
    assert request.headers["host"] == f"receiver.test:{out.receiver.port}"
    assert request.path == "/hook?a=1"


async def test_no_secret_and_no_body_is_logged(out: Outgoing, caplog: pytest.LogCaptureFixture) -> None:
    created = await out.subscribe()
    await out.tell("a-subject-of-its-own")
    out.receiver.answers.append(Answer(500))
    with caplog.at_level("DEBUG"):
        await out.send()
    logged = json.dumps([vars(record) for record in caplog.records], default=str)
    assert "attempt ended" in logged
    assert created.secret is not None
    assert created.secret not in logged
    assert "a-subject-of-its-own" not in logged


async def test_a_receiver_that_hangs_holds_up_no_other(out: Outgoing) -> None:
    never = asyncio.Event()
    hanging = [f"hanging-{number}" for number in range(4)]
    for name in hanging:
        await out.subscribe(name)
    await out.tell(*(f"old-{number}" for number in range(12)))
    out.receiver.otherwise = Answer(until=never)
    sender = out.sender()
    await out.fan_out()
    assert await sender.step()
    await until(lambda: _count(out, 4 * 8))
    await out.subscribe("well")
    await out.tell("new")
    await out.fan_out()
    out.receiver.otherwise = Answer()
    assert await sender.step()
    assert len(out.receiver.log) == 32, "there is no room"
    never.set()
    await out.send(sender)
    assert out.subjects()[32:].index("new") < 8, "it did not wait behind all that was there before"
