"""A worker that dies at any named point: every job ends, and the outside world saw each thing at most once."""

from __future__ import annotations

import signal
from uuid import UUID

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding, Settlement, resolve_effect
from signoff.domain.told import pack_text
from signoff.workers.faults import Point
from tests.support.desk import APPROVE, OLGA, REFUND_AND_MAIL, Desk
from tests.support.eventually import eventually
from tests.support.worker_process import Strike, WorkerProcess

pytestmark = pytest.mark.anyio

BEFORE_PARK = (Point.claimed, Point.before_flush, Point.after_flush, Point.before_park, Point.after_park)
SENDING = (Point.after_dispatch, Point.after_answer, Point.before_record)
AFTER_DECISION = (Point.before_dispatch, *SENDING, Point.after_record, Point.before_finish, Point.after_finish)


@pytest.mark.parametrize("point", BEFORE_PARK)
async def test_a_worker_killed_on_the_way_to_the_review(desk: Desk, point: Point) -> None:
    struck = desk.start_worker(Strike(point))
    job_id = await desk.submit(REFUND_AND_MAIL)
    await _is_killed(struck)
    desk.start_worker()

    review = await desk.pending_review(job_id)
    await desk.decide(review.id, APPROVE, APPROVE)
    job = await desk.until(job_id)

    assert job.status is JobStatus.succeeded
    assert len(await desk.reviews(job_id)) == 1
    assert len(desk.refunds()) == 1
    assert len(desk.mailbox.mails()) == 1


@pytest.mark.parametrize("point", AFTER_DECISION)
async def test_a_worker_killed_after_the_decision(desk: Desk, point: Point) -> None:
    first = desk.start_worker()
    job_id = await desk.submit(REFUND_AND_MAIL)
    review = await desk.pending_review(job_id)
    first.kill()
    struck = desk.start_worker(Strike(point, nth=2 if point in SENDING else 1))
    await desk.decide(review.id, APPROVE, APPROVE)
    await _is_killed(struck)
    desk.start_worker()

    await _settle_the_mail(desk, job_id)
    job = await desk.until(job_id)

    assert job.status is JobStatus.succeeded, job.error_message
    effects = await desk.effects(job_id)
    assert {effect.status for effect in effects.values()} == {EffectStatus.succeeded}
    assert await desk.sql("SELECT 1 FROM signoff.reviews WHERE resumed_at IS NULL") == []
    assert len(desk.refunds()) == 1
    assert len(desk.mailbox.mails()) <= 1


async def _is_killed(worker: WorkerProcess) -> None:
    await eventually(
        lambda: worker.exit_code == -signal.SIGKILL, within_seconds=15, message="the worker was not struck"
    )


async def _settle_the_mail(desk: Desk, job_id: UUID) -> None:
    """If nobody knows whether the mail left, an operator looks into the mailbox and says so."""
    held = await desk.until(job_id, JobStatus.awaiting_operator, JobStatus.succeeded)
    if held.status is JobStatus.succeeded:
        return
    mail = (await desk.effects(job_id))["send_email"]
    assert mail.status is EffectStatus.in_doubt
    arrived = bool(desk.mailbox.mails())
    finding = Finding.applied if arrived else Finding.not_applied
    settlement = Settlement(OLGA, "looked into the mailbox", "mailbox" if arrived else None)
    await resolve_effect(
        desk.store, desk.hints, mail.operation_id, finding, settlement, pack_text("Mailed."), environment="development"
    )
