"""A call that runs while a person is asked about its sibling, and the run ends at an unlucky moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool

from signoff.domain.effects import EffectStatus
from signoff.domain.errors import StoreUnavailable
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import retry_job
from signoff.domain.policy import allow, review
from signoff.domain.reviews import ReviewStatus
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import effect
from signoff.workers.faults import Point
from tests.support.api import open_store
from tests.support.models import ScriptedModel, calling, is_complete
from tests.support.parked import OPERATOR
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

APPROVE = {"type": "approve"}
RULES = [allow("send"), review("pay", reviewers=["finance"])]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


@effect("idempotent")
@tool
def pay(to: str) -> str:
    """Pays."""
    return f"paid {to}"


def both() -> AIMessage:
    return calling(("send", {"to": "ada"}), ("pay", {"to": "bob"}))


class Lost:
    """The worker is lost at the point."""

    def __init__(self, point: Point) -> None:
        self._point = point

    async def reach(self, point: Point) -> None:
        if point is Point.before_dispatch:
            # The sibling has asked by then, and what it asks is written with the mark.
            await asyncio.sleep(0.05)
        if point is self._point:
            raise StoreUnavailable("lost")


@pytest.mark.parametrize("point", [Point.after_dispatch, Point.before_record])
async def test_a_worker_lost_during_the_call_leaves_a_review_that_can_be_decided(
    store: PostgresStore, point: Point
) -> None:
    @effect("idempotent")
    @tool
    def send(to: str) -> str:
        """Sends."""
        return f"sent to {to}"

    lost = Workshop(store, [send, pay], both(), rules=RULES, faults=Lost(point))
    await lost.enrol()
    job_id = (await lost.submit()).id
    assert (await lost.run(job_id)).status is JobStatus.running
    await lost.sql("UPDATE signoff.jobs SET status = 'queued', lease_until = NULL, lease_owner = NULL")

    shop = Workshop(store, [send, pay], "Done.", rules=RULES)
    assert (await shop.run(job_id)).status is JobStatus.awaiting_review
    await shop.decide(job_id, APPROVE)
    assert (await shop.run(job_id)).status is JobStatus.succeeded
    assert [one.status for one in await shop.effects(job_id)] == [EffectStatus.succeeded] * 2


async def test_a_job_that_fails_beside_its_review_and_is_retried_does_not_wait_for_what_nobody_can_decide(
    store: PostgresStore,
) -> None:
    tries: list[str] = []

    @effect("keyed", window=timedelta(hours=1), first_delay=timedelta(milliseconds=1))
    @tool
    async def send(to: str) -> str:
        """Sends."""
        tries.append(to)
        if len(tries) == 1:
            raise TimeoutError
        if len(tries) == 2:
            await asyncio.Event().wait()
        return f"sent to {to}"

    tools: list[BaseTool] = [send, pay]
    shop = Workshop(store, tools, both(), "Done.", rules=RULES, wall_clock_seconds=1.0)
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    while job.status is JobStatus.queued:
        job = await shop.run(job.id)
    assert (job.status, job.error_code) == (JobStatus.failed, "wall_clock_limit")
    async with store.begin() as tx:
        assert [one.status for one in await tx.reviews.of_job(job.id)] == [ReviewStatus.cancelled]
    await retry_job(store, NoHints(), job.id, OPERATOR, "mended")

    while job.status in (JobStatus.failed, JobStatus.queued):
        job = await shop.run(job.id)
    assert (job.status, [one.tool for one in await shop.effects(job.id)]) == (JobStatus.succeeded, ["send"])
    assert isinstance(shop.agent.model, ScriptedModel)
    assert is_complete(shop.agent.model.asked[-1])


async def test_a_run_that_finds_its_review_undecided_parks_again(store: PostgresStore) -> None:
    shop = Workshop(store, [pay], calling(("pay", {"to": "bob"})), "Done.", rules=RULES[1:])
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    await shop.sql("UPDATE signoff.jobs SET status = 'queued'")
    assert (await shop.run(job.id)).status is JobStatus.awaiting_review
    await shop.decide(job.id, APPROVE)
    assert (await shop.run(job.id)).status is JobStatus.succeeded
