"""Cancelling a job in each state, and the next job of its thread."""

from __future__ import annotations

from uuid import UUID

import pytest

from examples.support_desk.faults import Fault, FaultKind
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import ReviewPending
from signoff.domain.jobs import JobStatus
from signoff.domain.reviews import ReviewStatus
from tests.support.desk import APPROVE, REFUND, Desk, answer_of
from tests.support.eventually import eventually
from tests.support.models import is_complete

pytestmark = pytest.mark.anyio

NEXT = "Where is order A-1001?"


async def test_a_queued_job_is_cancelled_at_once_and_the_next_one_starts(desk: Desk) -> None:
    job_id = await desk.submit(REFUND)
    next_id = await desk.submit(NEXT, (await desk.job(job_id)).thread_id)
    assert (await desk.job(next_id)).status is JobStatus.waiting
    assert (await desk.cancel(job_id)).status is JobStatus.cancelled
    desk.start_worker()

    answer_of(await desk.until(next_id))
    assert (await desk.job(job_id)).fence == 0
    assert await desk.reviews(job_id) == []


async def test_a_waiting_job_is_cancelled_and_never_starts(calm_desk: Desk) -> None:
    calm_desk.payments.faults.ask(Fault(FaultKind.delay_after, about="W-1", seconds=1.0))
    first = await calm_desk.submit(_refund("W-1", 10))
    await eventually(lambda: _paid(calm_desk, "W-1"), message=calm_desk.story)
    waiting = await calm_desk.submit(NEXT, (await calm_desk.job(first)).thread_id)
    assert (await calm_desk.job(waiting)).status is JobStatus.waiting
    assert (await calm_desk.cancel(waiting)).status is JobStatus.cancelled

    answer_of(await calm_desk.until(first))
    assert (await calm_desk.job(waiting)).fence == 0


async def test_a_running_job_is_cancelled_during_a_slow_call_and_its_result_is_recorded(calm_desk: Desk) -> None:
    calm_desk.payments.faults.ask(Fault(FaultKind.delay_after, about="S-1", seconds=1.5))
    text = f"{_refund('S-1', 10)[:-1]}, and look up order A-1001. Refund 11.00 on order S-2 because it came late."
    job_id = await calm_desk.submit(text)
    next_id = await calm_desk.submit(NEXT, (await calm_desk.job(job_id)).thread_id)
    await eventually(lambda: _paid(calm_desk, "S-1"), message=calm_desk.story)
    asked = await calm_desk.cancel(job_id)
    assert (asked.status, asked.cancel_requested) == (JobStatus.running, True)
    job = await calm_desk.until(job_id)

    assert (job.status, job.error_code) == (JobStatus.cancelled, "cancelled")
    effect = (await _effects(calm_desk, job_id))["S-1"]
    assert effect == ("succeeded", 1)
    answer_of(await calm_desk.until(next_id))
    results = [str(m.text) for m in await calm_desk.messages(next_id) if m.type == "tool"]
    assert any("Refunded 10.00 on order S-1" in text for text in results), "the thread is told what was done"
    assert is_complete(await calm_desk.messages(next_id))


async def test_nothing_is_dispatched_once_the_cancellation_is_asked_for(calm_desk: Desk) -> None:
    job_id = await calm_desk.submit(_refund("N-1", 42))
    review = await calm_desk.pending_review(job_id)
    # As if it came between the claim and the dispatch: the claim keeps the request.
    await calm_desk.sql("UPDATE signoff.jobs SET cancel_requested_at = now() WHERE id = %s", job_id)
    await calm_desk.decide(review.id, APPROVE)
    job = await calm_desk.until(job_id)

    assert job.status is JobStatus.cancelled
    effect = await calm_desk.effect(job_id, "refund")
    assert (effect.status, effect.attempts) == (EffectStatus.cancelled, 0)
    assert _paid(calm_desk, "N-1") == []


async def test_a_job_that_awaits_a_review_is_cancelled_with_it_and_the_next_one_starts(calm_desk: Desk) -> None:
    job_id = await calm_desk.submit(_refund("P-1", 42))
    review = await calm_desk.pending_review(job_id)
    await calm_desk.cancel(job_id)
    next_id = await calm_desk.submit(NEXT, (await calm_desk.job(job_id)).thread_id)

    answer_of(await calm_desk.until(next_id))
    (cancelled,) = await calm_desk.reviews(job_id)
    assert (cancelled.id, cancelled.status) == (review.id, ReviewStatus.cancelled)
    assert await calm_desk.effects(job_id) == {}
    assert is_complete(await calm_desk.messages(next_id))


async def test_a_job_that_awaits_an_operator_is_cancelled_and_its_doubt_stays(calm_desk: Desk) -> None:
    address = "cancelled@example.com"
    calm_desk.mailbox.faults.ask(Fault(FaultKind.error_after, about=address))
    job_id = await calm_desk.submit(f"Email {address} that the parcel is on its way.")
    await calm_desk.decide((await calm_desk.pending_review(job_id)).id, APPROVE)
    await calm_desk.until(job_id, JobStatus.awaiting_operator)
    next_id = await calm_desk.submit(NEXT, (await calm_desk.job(job_id)).thread_id)
    await calm_desk.cancel(job_id)

    answer_of(await calm_desk.until(next_id))
    assert (await calm_desk.effect(job_id, "send_email")).status is EffectStatus.in_doubt
    messages = await calm_desk.messages(next_id)
    assert is_complete(messages)
    (told,) = [str(m.text) for m in messages if m.type == "tool" and m.name == "send_email"]
    assert "may have run, or not" in told


async def test_a_new_job_is_refused_while_a_review_is_pending_unless_it_cancels_that_one(calm_desk: Desk) -> None:
    job_id = await calm_desk.submit(f"{_refund('Q-1', 42)} {_refund('Q-2', 43)}")
    await calm_desk.pending_review(job_id)
    thread_id = (await calm_desk.job(job_id)).thread_id
    with pytest.raises(ReviewPending) as refused:
        await calm_desk.submit(NEXT, thread_id)
    assert refused.value.details["job_id"] == str(job_id)
    assert (await calm_desk.job(job_id)).status is JobStatus.awaiting_review

    next_id = await calm_desk.submit(NEXT, thread_id, cancel_pending=True)
    answer_of(await calm_desk.until(next_id))
    assert (await calm_desk.job(job_id)).status is JobStatus.cancelled
    messages = await calm_desk.messages(next_id)
    assert is_complete(messages)
    assert [m.type for m in messages] == ["human", "ai", "tool", "tool", "human", "ai", "tool", "ai"]
    assert "did not run" in str(messages[2].text)
    assert _paid(calm_desk, "Q-1") == _paid(calm_desk, "Q-2") == []


def _refund(order: str, amount: int) -> str:
    return f"Refund {amount}.00 on order {order} because it came late."


def _paid(desk: Desk, order: str) -> list[float]:
    return [paid["amount"] for paid in desk.refunds() if paid["order_id"] == order]


async def _effects(desk: Desk, job_id: UUID) -> dict[str, tuple[str, int]]:
    rows = await desk.sql(
        "SELECT args ->> 'order_id' AS about, status, attempts FROM signoff.effects WHERE job_id = %s", job_id
    )
    return {row["about"]: (row["status"], row["attempts"]) for row in rows}
