"""Postgres restarted, crashed or away during work: nothing is lost, and what came back meanwhile is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import pytest

from examples.support_desk.faults import Fault, FaultKind
from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import StoreUnavailable
from signoff.domain.jobs import JobStatus
from signoff.infra.embedded import EmbeddedPostgres
from signoff.infra.postgres.migrate import migrate
from tests.support.desk import APPROVE, MAIL, REFUND, Desk, answer_of, open_desk
from tests.support.desk_agents import spec
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

SLOW = "Refund 10.00 on order S-1 because it came late."


@pytest.fixture
def postgres(open_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server of the test's own, as careful with its data as one in production."""
    with EmbeddedPostgres(open_folder / "state") as server:
        asyncio.run(migrate(server.url))
        yield server


@pytest.fixture
async def desk(
    postgres: EmbeddedPostgres, redis_url: str, tmp_path: Path, payments: Payments, mailbox: Mailbox
) -> AsyncIterator[Desk]:
    async with open_desk(postgres.url, redis_url, tmp_path, payments, mailbox) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_jobs_outlive_a_restart(
    desk: Desk, postgres: EmbeddedPostgres, mode: Literal["fast", "immediate"]
) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, about="S-1", seconds=2.0))
    desk.start_worker(SIGNOFF_LEASE_SECONDS="20")
    parked = await desk.submit(REFUND)
    answered = await desk.submit(MAIL)
    reviews = [await desk.pending_review(job_id) for job_id in (parked, answered)]
    running = await desk.submit(SLOW)
    await eventually(desk.refunds, message=desk.story)
    queued = await desk.submit("Where is order A-1001?", agent="free")  # no worker serves it yet

    await asyncio.to_thread(postgres.restart, mode)
    await eventually(lambda: _answers(desk), within_seconds=20)
    desk.start_worker(SIGNOFF_AGENTS=spec("free"))
    for review in reviews:
        await desk.decide(review.id, APPROVE)

    for job_id in (parked, answered, running, queued):
        answer_of(await desk.until(job_id, within_seconds=40))
    assert sorted(paid["amount"] for paid in desk.refunds()) == [10.0, 42.5]
    assert len(desk.mailbox.mails()) == 1


async def test_a_result_that_came_back_while_postgres_was_away_is_recorded(
    desk: Desk, postgres: EmbeddedPostgres
) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, about="S-1", seconds=1.0))
    desk.start_worker(SIGNOFF_LEASE_SECONDS="20")
    job_id = await desk.submit(SLOW)
    await eventually(desk.refunds, message=desk.story)
    await asyncio.to_thread(postgres.stop)
    await eventually(desk.payments.requests)
    await asyncio.to_thread(postgres.start)

    await eventually(lambda: _answers(desk), within_seconds=20)
    recorded = await desk.effect(job_id, "refund", EffectStatus.succeeded)
    assert (recorded.attempts, recorded.doubt_since) == (1, None)
    assert await desk.sql("SELECT 1 FROM signoff.evidence") == []
    assert (await desk.until(job_id, within_seconds=40)).status is JobStatus.succeeded
    assert len(desk.payments.requests()) == len(desk.refunds()) == 1


async def _answers(desk: Desk) -> bool:
    try:
        return bool(await desk.sql("SELECT 1"))
    except StoreUnavailable:
        return False
