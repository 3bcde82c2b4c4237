"""Many messages and many workers for one job: one outcome, one effect."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from signoff.domain.events import EventType
from signoff.domain.jobs import JobStatus
from signoff.infra.hints import RUN_JOB, agent_queue, make_broker
from tests.support.desk import AGENT, APPROVE, REFUND_AND_MAIL, Desk
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

TIMES = 20


async def test_the_same_message_twenty_times_at_once_runs_the_job_once(desk: Desk) -> None:
    desk.start_worker()
    desk.start_worker()
    job_id = await desk.submit(REFUND_AND_MAIL)
    await _tell_often(desk, job_id)
    review = await desk.pending_review(job_id)
    await desk.decide(review.id, APPROVE, APPROVE)
    await _tell_often(desk, job_id)
    job = await desk.until(job_id)
    await _tell_often(desk, job_id)
    await eventually(lambda: desk.hints.queue_is_empty(AGENT))

    assert job.status is JobStatus.succeeded
    assert await desk.job(job_id) == job
    assert job.fence == 2, "one claim until the review and one after it"
    assert len(await desk.reviews(job_id)) == 1
    assert len(desk.payments.requests()) == len(desk.refunds()) == 1
    assert len(desk.mailbox.mails()) == 1
    events = await desk.sql("SELECT 1 FROM signoff.events WHERE type = %s", EventType.job_succeeded)
    assert len(events) == 1


async def test_two_workers_on_one_thread_work_one_after_the_other(desk: Desk) -> None:
    desk.start_worker()
    desk.start_worker()
    thread_id = (await desk.job(await desk.submit("Where is order A-1001?"))).thread_id
    texts = [f"Refund {number}.00 on order A-100{number} because it came late." for number in range(1, 6)]
    jobs = [await desk.submit(text, thread_id) for text in texts]
    ended = [await desk.until(job_id) for job_id in jobs]

    assert {job.status for job in ended} == {JobStatus.succeeded}
    assert sorted(paid["amount"] for paid in desk.refunds()) == [1.0, 2.0, 3.0, 4.0, 5.0]
    said = [str(message.text) for message in await desk.messages(jobs[-1]) if message.type == "human"]
    assert said == ["Where is order A-1001?", *texts], "no branch of the history was lost"


async def _tell_often(desk: Desk, job_id: UUID) -> None:
    """Publishes past every saving that the hints make."""

    def publish() -> None:
        with make_broker(desk.addresses.redis_url, 2.0) as broker:
            for _ in range(TIMES):
                broker.send_task(RUN_JOB, args=[str(job_id)], queue=agent_queue(AGENT), retry=False)

    await asyncio.to_thread(publish)
