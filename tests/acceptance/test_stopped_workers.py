"""A worker that stands still past its lease and wakes up: another has the job, and the woken one changes nothing."""

from __future__ import annotations

import signal
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding
from signoff.workers.faults import Point
from tests.support.desk import APPROVE, MAIL, REFUND, Desk
from tests.support.eventually import eventually
from tests.support.worker_process import Strike, WorkerProcess

pytestmark = pytest.mark.anyio

SENDING = (Point.after_dispatch, Point.after_answer)


@pytest.mark.parametrize("point", [Point.before_flush, Point.before_park])
async def test_a_worker_that_wakes_up_on_the_way_to_the_review_is_fenced_off(desk: Desk, point: Point) -> None:
    sleeper = desk.start_worker(Strike(point, signal.SIGSTOP))
    job_id = await desk.submit(REFUND)
    await _stands_still(sleeper)
    desk.start_worker()
    review = await desk.pending_review(job_id)
    before = await _traces(desk, job_id)
    await _wake(sleeper, desk)

    assert await _traces(desk, job_id) == before
    await desk.decide(review.id, APPROVE)
    assert (await desk.until(job_id)).status is JobStatus.succeeded
    assert len(await desk.reviews(job_id)) == 1
    assert len(desk.refunds()) == 1


@pytest.mark.parametrize("point", SENDING)
async def test_a_keyed_call_of_a_worker_that_wakes_up_is_paid_once(desk: Desk, point: Point) -> None:
    job_id, sleeper = await _asleep_at(desk, point, REFUND)
    desk.start_worker()
    job = await desk.until(job_id)
    before = await _traces(desk, job_id)
    await _wake(sleeper, desk)

    assert job.status is JobStatus.succeeded
    assert (await desk.effect(job_id, "refund")).status is EffectStatus.succeeded
    assert len(desk.refunds()) == 1
    assert await _traces(desk, job_id) == before
    (evidence,) = await desk.sql("SELECT outcome FROM signoff.evidence")
    assert evidence["outcome"] == ("not_applied" if point is Point.after_dispatch else "succeeded")


@pytest.mark.parametrize("point", SENDING)
async def test_an_opaque_call_of_a_worker_that_wakes_up_is_settled_by_an_operator(desk: Desk, point: Point) -> None:
    job_id, sleeper = await _asleep_at(desk, point, MAIL)
    desk.start_worker()
    mail = await desk.effect(job_id, "send_email", EffectStatus.in_doubt)
    held = await desk.until(job_id, JobStatus.awaiting_operator)
    assert held.error_code == "effect_held"
    arrived = bool(desk.mailbox.mails())
    assert arrived == (point is Point.after_answer)
    await desk.resolve(mail, Finding.applied if arrived else Finding.not_applied)
    job = await desk.until(job_id)
    before = await _traces(desk, job_id)
    await _wake(sleeper, desk)

    assert job.status is JobStatus.succeeded
    assert (await desk.effect(job_id, "send_email")).status is EffectStatus.succeeded
    assert await _traces(desk, job_id) == before
    assert len(desk.mailbox.mails()) == 1, "it must not send what others have settled"


async def _asleep_at(desk: Desk, point: Point, text: str) -> tuple[UUID, WorkerProcess]:
    sleeper = desk.start_worker(Strike(point, signal.SIGSTOP))
    job_id = await desk.submit(text)
    await desk.decide((await desk.pending_review(job_id)).id, APPROVE)
    await _stands_still(sleeper)
    return job_id, sleeper


async def _stands_still(worker: WorkerProcess) -> None:
    await eventually(lambda: worker.stands_still, within_seconds=15, message="the worker was not stopped")


async def _wake(sleeper: WorkerProcess, desk: Desk) -> None:
    """Wakes it, and waits until it has given up its run: it can drain."""
    sleeper.send(signal.SIGCONT)
    assert await sleeper.drain() == 0, desk.story()


async def _traces(desk: Desk, job_id: UUID) -> list[list[dict[str, Any]]]:
    """Every row that a run may write, but evidence and the alarm that it may raise."""
    return [
        await desk.sql("SELECT status, fence, tries, result, error_code FROM signoff.jobs WHERE id = %s", job_id),
        await desk.sql("SELECT * FROM signoff.reviews WHERE job_id = %s", job_id),
        await desk.sql("SELECT * FROM signoff.effects WHERE job_id = %s", job_id),
        await desk.sql("SELECT * FROM signoff.attempts ORDER BY dispatched_at"),
        await desk.sql("SELECT * FROM signoff.effect_events ORDER BY position"),
        await desk.sql("SELECT head_checkpoint_id, head_job_id FROM signoff.threads"),
        await desk.sql("SELECT checkpoint_id FROM langgraph.checkpoints ORDER BY 1"),
        await desk.sql(
            "SELECT id FROM signoff.events WHERE job_id = %s AND type <> 'signoff.effect.alarmed.v1' ORDER BY position",
            job_id,
        ),
    ]
