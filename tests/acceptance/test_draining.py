"""SIGTERM: a worker takes nothing more, lets what it does end in time, gives its jobs back and exits 0."""

from __future__ import annotations

from uuid import UUID

import pytest

from examples.support_desk.faults import Fault, FaultKind
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding
from tests.support.desk import APPROVE, MAIL, Desk, answer_of
from tests.support.desk_agents import spec
from tests.support.eventually import eventually
from tests.support.worker_process import WorkerProcess

pytestmark = pytest.mark.anyio

POOLS = ("threads", "prefork")
SLOW_REFUND = "Refund 10.00 on order A-1001 because it came late."


@pytest.mark.parametrize("pool", POOLS)
async def test_a_call_that_ends_in_time_is_recorded_and_the_job_goes_on_elsewhere(desk: Desk, pool: str) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, seconds=1.0))
    worker, job_id = await _at_a_slow_refund(desk, pool)
    assert await worker.drain() == 0, desk.story()

    given_back = await desk.job(job_id)
    assert (given_back.status, given_back.tries) == (JobStatus.queued, 0)
    assert (await desk.effect(job_id, "refund")).status is EffectStatus.succeeded
    desk.start_worker()
    answer_of(await desk.until(job_id))
    assert len(desk.refunds()) == len(desk.payments.requests()) == 1


@pytest.mark.parametrize("pool", POOLS)
async def test_a_keyed_call_that_lasts_too_long_is_cut_off_and_sent_again_with_its_key(desk: Desk, pool: str) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, seconds=3.0))
    worker, job_id = await _at_a_slow_refund(desk, pool, SIGNOFF_DRAIN_SECONDS="0.3")
    assert await worker.drain() == 0, desk.story()

    given_back = await desk.job(job_id)
    assert (given_back.status, given_back.tries, given_back.error_code) == (JobStatus.queued, 0, "drained")
    left = await desk.effect(job_id, "refund")
    assert (left.status, left.attempts) == (EffectStatus.retry_wait, 1)
    assert left.doubt_since is not None
    desk.start_worker()
    answer_of(await desk.until(job_id))
    assert (await desk.effect(job_id, "refund")).doubt_since is None
    assert [paid["key"] for paid in desk.refunds()] == [left.idempotency_key]


async def test_an_opaque_call_that_lasts_too_long_is_in_doubt_and_waits_for_an_operator(desk: Desk) -> None:
    desk.mailbox.faults.ask(Fault(FaultKind.delay_after, seconds=2.0))
    worker = desk.start_worker(SIGNOFF_DRAIN_SECONDS="0.3")
    job_id = await desk.submit(MAIL)
    await desk.decide((await desk.pending_review(job_id)).id, APPROVE)
    await eventually(desk.mailbox.mails)
    assert await worker.drain() == 0, desk.story()
    assert (await desk.effect(job_id, "send_email")).status is EffectStatus.in_doubt

    desk.start_worker()
    await desk.until(job_id, JobStatus.awaiting_operator)
    await desk.resolve(await desk.effect(job_id, "send_email"), Finding.applied)
    answer_of(await desk.until(job_id))
    assert len(desk.mailbox.mails()) == 1


async def test_a_call_that_runs_alone_is_cut_off_too(desk: Desk) -> None:
    desk.payments.faults.ask(Fault(FaultKind.decline))
    worker = desk.start_worker(SIGNOFF_DRAIN_SECONDS="0.3")
    job_id = await desk.submit(SLOW_REFUND)
    await desk.until(job_id)
    desk.payments.faults.ask(Fault(FaultKind.delay_after, seconds=3.0))
    await desk.replay(await desk.effect(job_id, "refund", EffectStatus.failed))
    await eventually(desk.refunds)
    assert await worker.drain(within_seconds=2.5) == 0, desk.story()
    left = await desk.effect(job_id, "refund")
    assert left.status is EffectStatus.retry_wait

    desk.start_worker()
    after = await desk.effect(job_id, "refund", EffectStatus.succeeded)
    assert [paid["key"] for paid in desk.refunds()] == [after.idempotency_key]


async def test_a_worker_that_drains_takes_no_further_job(desk: Desk) -> None:
    desk.payments.faults.ask(Fault(FaultKind.delay_after, seconds=0.5))
    worker, job_id = await _at_a_slow_refund(desk, "threads", SIGNOFF_WORKER_CONCURRENCY="1")
    others = [await desk.submit("Where is order A-1001?", agent="free") for _ in range(3)]
    assert await worker.drain() == 0, desk.story()

    assert "Warm shutdown" in desk.story()
    assert {(await desk.job(other)).fence for other in others} == {0}
    desk.start_worker(SIGNOFF_AGENTS=f"{desk.environment['SIGNOFF_AGENTS']},{spec('free')}")
    for job in (job_id, *others):
        answer_of(await desk.until(job))


async def _at_a_slow_refund(desk: Desk, pool: str, **settings: str) -> tuple[WorkerProcess, UUID]:
    """A worker whose refund has been paid, and which still waits for the answer."""
    agents = f"{desk.environment['SIGNOFF_AGENTS']},{spec('free')}"
    # The lease outlasts the drain, so that what is seen is the drain and no lapse.
    options = {"SIGNOFF_WORKER_CONCURRENCY": "2", "SIGNOFF_LEASE_SECONDS": "10", "SIGNOFF_AGENTS": agents, **settings}
    worker = desk.start_worker(None, SIGNOFF_WORKER_POOL=pool, **options)
    job_id = await desk.submit(SLOW_REFUND)
    await eventually(desk.refunds, within_seconds=20, message=desk.story)
    return worker, job_id
