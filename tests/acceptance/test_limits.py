"""Deadlines, tries, failing models, and limits of steps and time: each ends, or waits for somebody, with the reason."""

from __future__ import annotations

import signal

import pytest

from examples.support_desk.faults import Fault, FaultKind
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding
from signoff.domain.reviews import ItemStatus, ReviewStatus
from signoff.workers.faults import Point
from tests.support.desk import APPROVE, REFUND_AND_MAIL, Desk, answer_of
from tests.support.desk_agents import spec
from tests.support.eventually import eventually
from tests.support.worker_process import Strike, WorkerProcess

pytestmark = pytest.mark.anyio

LATE = "UPDATE signoff.items SET deadline_at = now() - interval '1 second' WHERE id = %s"


async def test_an_item_past_its_deadline_expires_and_its_approved_sibling_still_runs(calm_desk: Desk) -> None:
    job_id = await calm_desk.submit(REFUND_AND_MAIL)
    review = await calm_desk.pending_review(job_id)
    refund, mail = review.items
    await calm_desk.decide(review.id, {**APPROVE, "item_id": str(refund.id)})
    await calm_desk.sql(LATE, mail.id)
    answer = answer_of(await calm_desk.until(job_id))

    (expired,) = await calm_desk.reviews(job_id)
    assert expired.status is ReviewStatus.expired
    assert [item.status for item in expired.items] == [ItemStatus.decided, ItemStatus.expired]
    told = str((await calm_desk.results(job_id))["send_email"].text)
    assert "Nobody decided about this call before its deadline. send_email did not run." in told
    assert "Refunded 42.50" in answer
    assert set(await calm_desk.effects(job_id)) == {"refund"}
    assert len(calm_desk.refunds()) == 1
    assert calm_desk.mailbox.mails() == []


async def test_a_job_that_kills_its_workers_waits_for_an_operator_and_goes_on_when_told(desk: Desk) -> None:
    job_id = await desk.submit("Where is order A-1001?")
    for _ in range(int(desk.environment["SIGNOFF_MAX_TRIES"])):
        await _is_killed(desk, desk.start_worker(Strike(Point.claimed)))
    held = await desk.until(job_id, JobStatus.awaiting_operator)

    assert held.error_code == "tries_exhausted"
    assert "its worker was lost 4 times" in str(held.error_message)
    desk.start_worker()
    retried = await desk.retry(job_id)
    assert (retried.status, retried.tries) == (JobStatus.queued, 0)
    answer_of(await desk.until(job_id))


async def test_limits_and_failing_models(desk: Desk) -> None:
    """One worker for the four of them: each rule has a job of its own."""
    desk.start_worker(SIGNOFF_AGENTS=spec("stumbling", "broken", "endless", "hasty"), SIGNOFF_MAX_TRIES="2")
    desk.payments.faults.ask(Fault(FaultKind.delay_after, seconds=2.5))
    hasty = await desk.submit("Refund 10.00 on order A-1001 because it came late.", agent="hasty")
    stumbling = await desk.submit("Where is order A-1001?", agent="stumbling")
    broken = await desk.submit("Where is order A-1001?", agent="broken")
    endless = await desk.submit("Where is order A-1001?", agent="endless")

    assert "Espresso machine" in answer_of(await desk.until(stumbling)), "a model that fails once is asked again"

    held = await desk.until(broken, JobStatus.awaiting_operator)
    assert held.error_code == "model_failed"
    assert held.error_message == "2 tries failed, the last with: ConnectionError: the model is away"

    stopped = await desk.until(endless)
    assert (stopped.status, stopped.error_code) == (JobStatus.failed, "step_limit")
    assert stopped.error_message == "the agent used up its 2 tool rounds"
    assert [effect.attempts for effect in (await desk.effects(endless)).values()] == [1]

    late = await desk.until(hasty)
    assert (late.status, late.error_code) == (JobStatus.failed, "wall_clock_limit")
    assert late.ran_seconds == pytest.approx(0.7, abs=0.6)
    cut_off = await desk.effect(hasty, "refund")
    assert cut_off.status is EffectStatus.in_doubt, "the money may have left: its job's end says nothing about it"
    await desk.resolve(cut_off, Finding.applied)
    assert (await desk.effect(hasty, "refund")).status is EffectStatus.succeeded
    await desk.retry(hasty)
    assert "An operator says that it was done." in answer_of(await desk.until(hasty))
    assert len(desk.refunds()) == 1


async def _is_killed(desk: Desk, worker: WorkerProcess) -> None:
    await eventually(lambda: worker.exit_code == -signal.SIGKILL, within_seconds=15, message=desk.story)
