"""Redis emptied, or gone and back without its data, with jobs queued, running and parked: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from examples.support_desk.faults import Fault, FaultKind
from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.domain.jobs import JobStatus
from signoff.infra.embedded import EmbeddedValkey
from tests.support.desk import APPROVE, MAIL, REFUND, Desk, answer_of, open_desk
from tests.support.desk_agents import spec
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

EVENTS = "signoff:events"


@pytest.fixture
def valkey() -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
async def desk(
    database_url: str, valkey: EmbeddedValkey, tmp_path: Path, payments: Payments, mailbox: Mailbox
) -> AsyncIterator[Desk]:
    async with open_desk(database_url, valkey.url, tmp_path, payments, mailbox) as opened:
        yield opened


@pytest.mark.parametrize("way", ["emptied", "restarted without its data"])
async def test_jobs_and_events_outlive_the_loss_of_redis(desk: Desk, valkey: EmbeddedValkey, way: str) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, about="S-1", seconds=2.0))
    desk.start_worker()
    parked = await desk.submit(REFUND)
    answered = await desk.submit(MAIL)
    reviews = [await desk.pending_review(job_id) for job_id in (parked, answered)]
    running = await desk.submit("Refund 10.00 on order S-1 because it came late.")
    await eventually(desk.refunds, message=desk.story)
    queued = await desk.submit("Where is order A-1001?", agent="free")  # no worker serves it yet
    await desk.decide(reviews[1].id, APPROVE)

    await _lose(valkey, way)
    assert (await desk.job(running)).status is JobStatus.running
    assert (await desk.job(queued)).status is JobStatus.queued
    assert (await desk.job(parked)).status is JobStatus.awaiting_review
    desk.start_worker(SIGNOFF_AGENTS=spec("free"))
    await desk.decide(reviews[0].id, APPROVE)

    for job_id in (parked, answered, running, queued):
        answer_of(await desk.until(job_id))
    assert sorted(paid["amount"] for paid in desk.refunds()) == [10.0, 42.5]
    assert len(desk.mailbox.mails()) == 1
    later = await desk.submit("Where is order A-1002?")
    answer_of(await desk.until(later))
    await _all_events_arrive(desk)


async def _lose(valkey: EmbeddedValkey, way: str) -> None:
    if way == "emptied":
        with redis.Redis.from_url(valkey.url) as client:
            client.flushall()
        return
    await asyncio.to_thread(valkey.restart, keep_data=False)


async def _all_events_arrive(desk: Desk) -> None:
    async def missing() -> bool:
        rows = await desk.sql("SELECT id FROM signoff.events")
        with redis.Redis.from_url(desk.addresses.redis_url) as client:
            sent = str(client.xrange(EVENTS))
        return all(str(row["id"]) in sent for row in rows)

    await eventually(missing, message="not every event is in the stream")
