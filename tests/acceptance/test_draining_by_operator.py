"""An operator has a worker drain: it gives back what it runs, claims nothing more, and stays up."""

from __future__ import annotations

from typing import Any

import pytest

from examples.support_desk.faults import Fault, FaultKind
from signoff.domain.draining import Which, drain_workers
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from tests.support.desk import OLGA, Desk, answer_of
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

SLOW_REFUND = "Refund 10.00 on order A-1001 because it came late."
DRAINED = "SELECT name FROM signoff.workers WHERE drained_at IS NOT NULL"


@pytest.mark.parametrize("pool", ["threads", "prefork"])
async def test_it_gives_back_takes_nothing_more_and_stays_up(desk: Desk, pool: str) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, seconds=5.0))
    # A worker with such a lease hears of it within a second.
    settings = {"SIGNOFF_LEASE_SECONDS": "6", "SIGNOFF_DRAIN_SECONDS": "0.3", "SIGNOFF_WORKER_POOL": pool}
    worker = desk.start_worker(None, SIGNOFF_WORKER_CONCURRENCY="2", **settings)
    first = await desk.submit(SLOW_REFUND)
    await eventually(desk.refunds, within_seconds=20, message=desk.story)
    processes = {"threads": 1, "prefork": 2}[pool]
    (running,) = await desk.sql("SELECT lease_owner FROM signoff.jobs WHERE status = 'running'")

    await drain_workers(desk.store, OLGA, Which(running["lease_owner"]), "a new version")

    async def all_drained() -> list[dict[str, Any]] | None:
        rows = await desk.sql(DRAINED)
        return rows if len(rows) == processes else None

    assert await eventually(all_drained, within_seconds=20, message=desk.story)
    given_back = await desk.job(first)
    assert (given_back.status, given_back.tries, given_back.error_code) == (JobStatus.queued, 0, "drained")
    assert (await desk.effect(first, "refund")).status is EffectStatus.retry_wait
    fence = given_back.fence

    second = await desk.submit(SLOW_REFUND)
    await eventually(lambda: "Canceling queue" in desk.story() or None, message=desk.story)
    assert worker.exit_code is None
    assert ((await desk.job(first)).fence, (await desk.job(second)).fence) == (fence, 0)
    desk.start_worker()
    for job in (first, second):
        answer_of(await desk.until(job))
    assert await worker.drain() == 0, desk.story()
