"""Runs that end at an unlucky moment, and what the next one makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from signoff.domain.cancelling import cancel_job
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import retry_job
from signoff.domain.policy import review
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import effect
from signoff.workers.faults import Point
from signoff.workers.guarding import Stop
from tests.support.api import open_store
from tests.support.models import ScriptedModel, calling, is_complete
from tests.support.parked import OPERATOR, PRODUCER
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

APPROVE = {"type": "approve"}


@effect("idempotent")
@tool
def send(to: str) -> str:
    """Sends."""
    return f"sent to {to}"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


class DrainsAt:
    """Tells a runner to drain when a run reaches the point."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.shop: Workshop | None = None

    async def reach(self, point: Point) -> None:
        if point is self.point and self.shop is not None:
            self.shop.runner.drain()


async def test_a_run_that_was_claimed_as_its_worker_began_to_drain_is_given_back(store: PostgresStore) -> None:
    faults = DrainsAt(Point.claimed)
    draining = Workshop(store, [send], "Done.", faults=faults)
    await draining.enrol()
    faults.shop = draining
    job = await draining.run((await draining.submit()).id)

    assert (job.status, job.tries, job.fence) == (JobStatus.queued, 0, 1)
    assert isinstance(draining.agent.model, ScriptedModel)
    assert draining.agent.model.asked == []
    assert (await Workshop(store, [send], "Done.").run(job.id)).status is JobStatus.succeeded


async def test_a_resume_that_is_given_back_before_its_first_step_keeps_the_decision(store: PostgresStore) -> None:
    rules = [review("send", reviewers=["finance"])]
    first = Workshop(store, [send], calling(("send", {"to": "ada"})), rules=rules)
    await first.enrol()
    job = await first.run((await first.submit()).id)
    await first.decide(job.id, APPROVE)
    faults = DrainsAt(Point.claimed)
    draining = Workshop(store, [send], rules=rules, faults=faults)
    faults.shop = draining
    assert (await draining.run(job.id)).status is JobStatus.queued
    assert await first.effects(job.id) != []

    last = Workshop(store, [send], "Done.", rules=rules)
    assert (await last.run(job.id)).status is JobStatus.succeeded
    assert [one.status for one in await last.effects(job.id)] == [EffectStatus.succeeded]


async def test_cancel_wins_over_the_limit_that_ends_the_run(store: PostgresStore) -> None:
    entered = asyncio.Event()

    @tool
    async def wait(to: str) -> None:
        """Waits."""
        entered.set()
        await asyncio.Event().wait()

    shop = Workshop(store, [wait], calling(("wait", {"to": "ada"})), wall_clock_seconds=1.0)
    await shop.enrol()
    job_id = (await shop.submit()).id
    running = asyncio.create_task(shop.run(job_id))
    await entered.wait()
    await cancel_job(store, NoHints(), job_id, PRODUCER)
    job = await running

    assert (job.status, job.error_code) == (JobStatus.cancelled, "cancelled")


async def test_an_error_with_text_that_can_not_be_stored_is_still_told(store: PostgresStore) -> None:
    shop = Workshop(store, [send], ConnectionError("a\0b \ud800"), ConnectionError("c\0d" * 5000), max_tries=2)
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    assert (job.status, job.error_code) == (JobStatus.queued, "model_failed")
    assert "a\ufffdb" in str(job.error_message)
    await shop.sql("UPDATE signoff.jobs SET run_at = clock_timestamp()")

    job = await shop.run(job.id)
    assert (job.status, job.error_code) == (JobStatus.awaiting_operator, "model_failed")
    assert len(str(job.error_message)) < 3000


async def test_a_failed_job_that_is_retried_behind_another_one_is_asked_anew(store: PostgresStore) -> None:
    @tool
    async def wait(to: str) -> None:
        """Waits."""
        await asyncio.Event().wait()

    shop = Workshop(
        store, [wait], calling(("wait", {"to": "ada"})), "To the second.", "To the first.", wall_clock_seconds=0.5
    )
    await shop.enrol()
    first = await shop.run((await shop.submit("First")).id)
    assert (first.status, first.error_code) == (JobStatus.failed, "wall_clock_limit")
    second = await shop.run((await shop.submit("Second", first.thread_id)).id)
    assert second.status is JobStatus.succeeded
    await retry_job(store, NoHints(), first.id, OPERATOR, "mended")

    assert (await shop.run(first.id)).result is not None
    assert isinstance(shop.agent.model, ScriptedModel)
    history = shop.agent.model.asked[-1]
    assert [one.content for one in history if isinstance(one, HumanMessage)] == ["First", "Second", "First"]
    assert isinstance(history[-1], HumanMessage)
    assert is_complete(history)


class HoldsTheSecondDispatch:
    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.reached = 0

    async def reach(self, point: Point) -> None:
        if point is Point.before_dispatch:
            self.reached += 1
            if self.reached == 2:
                await self.free.wait()


class Watched(asyncio.Event):
    """Tells when somebody waits for it: a call that is under way, of a run that is being stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.watched.set()
        return await super().wait()


async def test_a_call_under_way_is_recorded_though_its_job_is_cancelled_by_a_sibling_and_from_outside(
    store: PostgresStore,
) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    @tool
    async def slow(to: str) -> str:
        """Sends slowly."""
        entered.set()
        await left.wait()
        return "sent"

    faults = HoldsTheSecondDispatch()
    both = calling(("slow", {"to": "ada"}), ("slow", {"to": "bob"}))
    shop = Workshop(store, [slow], both, faults=faults)
    await shop.enrol()
    job_id = (await shop.submit()).id
    running = asyncio.create_task(shop.run(job_id))
    await entered.wait()
    await cancel_job(store, NoHints(), job_id, PRODUCER)
    (held,) = shop.heartbeat.held
    held.guard.cut_off = Watched()
    faults.free.set()
    await held.guard.cut_off.watched.wait()
    held.guard.stop(Stop.cancelled)
    done, _ = await asyncio.wait({running}, timeout=0.2)
    assert not done, "it ended before the call that was under way"
    left.set()
    job = await running

    assert job.status is JobStatus.cancelled
    assert [(one.status, one.attempts) for one in await shop.effects(job_id)] == [(EffectStatus.succeeded, 1)]
