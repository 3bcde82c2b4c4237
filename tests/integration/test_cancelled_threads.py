"""A cancelled job leaves its thread usable: the next one closes each open call with what the ledger knows of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from langchain_core.messages import ToolMessage

from signoff.domain.cancelling import cancel_job
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import Job, JobStatus
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers.faults import Faults, NoFaults, Point
from tests.support.api import open_store
from tests.support.models import ScriptedModel, calling, is_complete
from tests.support.parked import PRODUCER
from tests.support.till import APPROVE, FINANCE, PAY, Shop, Till

pytestmark = pytest.mark.anyio

S = EffectStatus


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


class LostAt:
    """The run is lost once it gets there."""

    def __init__(self, point: Point) -> None:
        self.point = point

    async def reach(self, point: Point) -> None:
        if point is self.point:
            raise RuntimeError("lost")


class Told(Shop):
    async def after_a_cancel(self, job: Job) -> str:
        """Cancels the job; what the next one of its thread is told of the call."""
        await cancel_job(self.store, NoHints(), job.id, PRODUCER)
        after = await self.run((await self.submit("And now?", thread_id=job.thread_id)).id)
        assert after.status is JobStatus.succeeded
        assert isinstance(self.agent.model, ScriptedModel)
        asked = self.agent.model.asked[-1]
        assert is_complete(asked)
        return str(next(message.text for message in reversed(asked) if isinstance(message, ToolMessage)))


async def decided(store: PostgresStore, till: Till, faults: Faults | None = None) -> tuple[Told, Job]:
    shop = Told(store, till, FINANCE, calling(PAY), "Done.", "Done.", faults=faults)
    job = await shop.open()
    await shop.say(job.id, APPROVE)
    return shop, job


async def test_a_call_that_nobody_decided(store: PostgresStore) -> None:
    shop = Told(store, Till(), FINANCE)
    assert "pay did not run" in await shop.after_a_cancel(await shop.open())


async def test_a_call_that_was_planned(store: PostgresStore) -> None:
    till = Till()
    shop, job = await decided(store, till)
    assert "The job ended before this call was sent" in await shop.after_a_cancel(job)
    assert till.paid == []


async def test_a_call_that_waits_for_another_try(store: PostgresStore) -> None:
    till = Till(refusals=1)
    shop, job = await decided(store, till)
    assert (await shop.run(job.id)).status is JobStatus.queued
    assert "The job ended before this call was sent" in await shop.after_a_cancel(job)
    assert till.paid == []


@pytest.mark.parametrize("status", [S.dispatched, S.in_doubt])
async def test_a_call_that_nobody_knows_the_outcome_of(store: PostgresStore, status: EffectStatus) -> None:
    till = Till("opaque")
    shop, job = await decided(store, till, LostAt(Point.after_answer))
    job = await shop.run(job.id)
    (effect,) = await shop.effects(job.id)
    assert (job.status, effect.status, till.paid) == (JobStatus.queued, S.dispatched, [("ada", 30)])
    if status is S.in_doubt:
        shop.runner._faults = NoFaults()
        await shop.hurry()
        assert (await shop.run(job.id)).status is JobStatus.awaiting_operator
    assert "pay may have run, or not" in await shop.after_a_cancel(job)
    assert till.paid == [("ada", 30)]


async def test_a_call_that_was_done_and_not_told(store: PostgresStore) -> None:
    till = Till("opaque")
    shop, job = await decided(store, till, LostAt(Point.after_record))
    job = await shop.run(job.id)
    assert (job.status, till.paid) == (JobStatus.queued, [("ada", 30)])
    shop.runner._faults = NoFaults()
    assert await shop.after_a_cancel(job) == "pay: 30 to ada"
    assert till.paid == [("ada", 30)]
