"""Accepting, ordering and cancelling jobs, on Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from signoff.domain.cancelling import cancel_job
from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.errors import (
    AgentMismatch,
    AgentNotFound,
    IdempotencyInProgress,
    IdempotencyMismatch,
    JobEnded,
    JobNotFound,
    ReviewPending,
    RightMissing,
    SignoffError,
    ThreadNotFound,
)
from signoff.domain.jobs import JobStatus, SubmitJob
from signoff.domain.policy import Policy, allow
from signoff.domain.submitting import submit_job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support import parked as world
from tests.support.api import dump, open_store
from tests.support.parked import OPERATOR, OTHER_PRODUCER, PRODUCER, REVIEWER, parked, submitted

pytestmark = pytest.mark.anyio


class Offers:
    """Hints that are remembered."""

    def __init__(self) -> None:
        self.jobs: list[UUID] = []

    def offer(self, agent: str, job_id: UUID) -> None:
        self.jobs.append(job_id)

    def offer_effect(self, agent: str, operation_id: str) -> None:
        raise AssertionError("no effect runs by itself here")


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def status_of(store: PostgresStore, job_id: UUID) -> JobStatus:
    async with store.begin() as tx:
        job = await tx.jobs.get(job_id)
    assert job is not None
    return job.status


async def test_a_job_is_accepted_with_its_event_and_its_hint(store: PostgresStore) -> None:
    hints = Offers()
    accepted = await submit_job(store, hints, SubmitJob(world.AGENT, "hello"), PRODUCER, "test")
    assert (accepted.created, accepted.job.status) == (True, JobStatus.queued)
    assert hints.jobs == [accepted.job.id]
    async with store.begin() as tx:
        (event,) = [event for event in await _events(store) if event["job_id"] == accepted.job.id]
        assert (event["type"], event["actor"]) == ("signoff.job.accepted.v1", "shop")
        assert await tx.jobs.by_key("shop", "none") is None


async def _events(store: PostgresStore) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        return await (await conn.execute("SELECT * FROM signoff.events ORDER BY position")).fetchall()


async def test_the_same_key_is_the_same_job_for_its_owner_alone(store: PostgresStore) -> None:
    first = await submitted(store, idempotency_key="k")
    again = await submitted(store, idempotency_key="k")
    other = await submitted(store, OTHER_PRODUCER, idempotency_key="k")
    assert first.id == again.id != other.id
    assert len(await _events(store)) == 2


async def test_a_key_with_another_request_is_refused(store: PostgresStore) -> None:
    first = await submitted(store, idempotency_key="k")
    for changes in ({"input": "other"}, {"labels": {"a": "b"}}, {"thread_id": "t"}, {"cancel_pending": True}):
        with pytest.raises(IdempotencyMismatch) as refused:
            await submitted(store, idempotency_key="k", **changes)
        assert refused.value.details["job_id"] == str(first.id)


async def test_twenty_at_once_with_one_key_are_one_job(store: PostgresStore) -> None:
    async def one() -> UUID | None:
        try:
            return (await submitted(store, idempotency_key="k", thread_id="t")).id
        except IdempotencyInProgress:
            return None

    answers = await asyncio.gather(*(one() for _ in range(20)))
    assert len({answer for answer in answers if answer}) == 1
    assert len(await _events(store)) == 1
    assert await one() in answers


async def test_twenty_at_once_on_one_thread_leave_one_started_job(store: PostgresStore) -> None:
    jobs = await asyncio.gather(*(submitted(store, thread_id="t") for _ in range(20)))
    statuses = [await status_of(store, job.id) for job in jobs]
    assert sorted(statuses) == ["queued"] + ["waiting"] * 19


@pytest.mark.parametrize(
    ("who", "fields", "error"),
    [
        (REVIEWER, {}, RightMissing),
        (PRODUCER, {"agent": "nobody"}, AgentNotFound),
        (OTHER_PRODUCER, {"thread_id": "mine"}, ThreadNotFound),
        (PRODUCER, {"agent": "other", "thread_id": "mine"}, AgentMismatch),
    ],
)
async def test_a_refused_job_leaves_nothing(
    store: PostgresStore, database_url: str, who: Any, fields: dict[str, Any], error: type[SignoffError]
) -> None:
    async with store.begin() as tx:
        await tx.agents.register("other", {}, Policy([allow("lookup_order")]))
    await submitted(store, thread_id="mine")
    before = dump(database_url)
    with pytest.raises(error):
        await submitted(store, who, **fields)
    assert dump(database_url) == before


async def test_jobs_of_a_thread_run_one_after_the_other(store: PostgresStore) -> None:
    first, second, third = [await submitted(store, thread_id="t") for _ in range(3)]
    assert [first.status, second.status, third.status] == ["queued", "waiting", "waiting"]
    await world.ended(store, first.id)
    assert await status_of(store, second.id) is JobStatus.queued
    await world.ended(store, second.id, well=False)
    assert await status_of(store, third.id) is JobStatus.queued


async def test_a_pending_review_keeps_the_thread_until_it_is_decided_or_cancelled(
    store: PostgresStore, database_url: str
) -> None:
    pending = await parked(store)
    before = dump(database_url)
    with pytest.raises(ReviewPending) as refused:
        await submitted(store, thread_id=pending.thread_id)
    assert refused.value.details["job_id"] == str(pending.job_id)
    assert dump(database_url) == before
    job = await submitted(store, thread_id=pending.thread_id, cancel_pending=True)
    assert job.status is JobStatus.queued
    assert await status_of(store, pending.job_id) is JobStatus.cancelled
    async with store.begin() as tx:
        locked = await tx.reviews.lock(pending.review_id)
    assert locked is not None
    assert (locked.review.status, locked.review.items[0].status) == ("cancelled", "cancelled")


async def test_a_pending_review_keeps_the_thread_also_while_its_job_waits_for_a_retry(store: PostgresStore) -> None:
    pending = await parked(store)
    await _wait_for_a_retry(store)
    with pytest.raises(ReviewPending):
        await submitted(store, thread_id=pending.thread_id)
    job = await submitted(store, thread_id=pending.thread_id, cancel_pending=True)
    assert job.status is JobStatus.queued
    assert await status_of(store, pending.job_id) is JobStatus.cancelled


async def test_a_decision_does_not_wait_for_the_retry_of_another_call(store: PostgresStore) -> None:
    pending = await parked(store)
    await _wait_for_a_retry(store)
    answers = parse_answers({"decisions": [{"type": "approve"}]})
    await decide_review(store, NoHints(), pending.review_id, answers, REVIEWER, door="http", environment="test")
    async with store.begin() as tx:
        job = await tx.jobs.get(pending.job_id)
        assert job is not None
        assert job.run_at <= await tx.now()


async def _wait_for_a_retry(store: PostgresStore) -> None:
    async with store.connection() as conn:
        await conn.execute(
            "UPDATE signoff.jobs SET status = 'queued', run_at = clock_timestamp() + interval '5 minutes'"
        )


async def test_cancelling_a_queued_job_lets_the_next_one_start(store: PostgresStore) -> None:
    first, second = [await submitted(store, thread_id="t") for _ in range(2)]
    hints = Offers()
    assert (await cancel_job(store, hints, first.id, PRODUCER)).status is JobStatus.cancelled
    assert await status_of(store, second.id) is JobStatus.queued
    assert hints.jobs == [second.id]
    again = await cancel_job(store, hints, first.id, PRODUCER)
    assert again.status is JobStatus.cancelled
    assert hints.jobs == [second.id]


async def test_cancelling_a_running_job_is_a_request(store: PostgresStore) -> None:
    job = await world.claimed(store, (await submitted(store)).id)
    after = await cancel_job(store, Offers(), job.id, OPERATOR, "a test")
    assert (after.status, after.cancel_requested_by) == (JobStatus.running, "olga")


async def test_cancelling_is_for_who_submitted_and_operators(store: PostgresStore, database_url: str) -> None:
    job = await submitted(store)
    before = dump(database_url)
    for who, job_id in ((OTHER_PRODUCER, job.id), (REVIEWER, job.id), (OPERATOR, uuid4())):
        with pytest.raises(JobNotFound):
            await cancel_job(store, Offers(), job_id, who)
    assert dump(database_url) == before
    await world.ended(store, job.id)
    with pytest.raises(JobEnded):
        await cancel_job(store, Offers(), job.id, PRODUCER)
