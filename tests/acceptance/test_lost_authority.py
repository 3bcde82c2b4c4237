"""Authority that was there when somebody decided, and is gone when the effect would leave."""

from __future__ import annotations

from uuid import UUID

import pytest

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from tests.support.desk import APPROVE, RAVI, REFUND, Desk, answer_of
from tests.support.desk_agents import spec

pytestmark = pytest.mark.anyio

DIRECTOR = Principal("dora", PrincipalKind.person, frozenset({"directors"}), frozenset({Right.review}))


async def test_what_a_revoked_reviewer_approved_does_not_leave(desk: Desk) -> None:
    job_id = await _approved_without_a_worker(desk)
    async with desk.store.begin() as tx:
        await tx.principals.revoke(RAVI.name)
    desk.start_worker()
    await _is_revoked_and_told(desk, job_id, "ravi, who approved it, may no longer decide this")


async def test_an_approval_that_is_too_old_does_not_count(desk: Desk) -> None:
    job_id = await _approved_without_a_worker(desk)
    await desk.sql("UPDATE signoff.items SET approval_valid_for_seconds = 0")
    desk.start_worker()
    await _is_revoked_and_told(desk, job_id, "the approval was valid until")


async def test_a_policy_that_denies_it_by_now_holds_at_dispatch(desk: Desk) -> None:
    job_id = await _approved_without_a_worker(desk)
    desk.start_worker(SIGNOFF_AGENTS=spec("denying"))
    await _is_revoked_and_told(desk, job_id, "the policy now denies it")


async def test_a_policy_that_wants_other_people_by_now_has_them_asked(desk: Desk) -> None:
    job_id = await _approved_without_a_worker(desk)
    async with desk.store.begin() as tx:
        await tx.principals.create(DIRECTOR)
    desk.start_worker(SIGNOFF_AGENTS=spec("directors_only"))
    again = await desk.pending_review(job_id)
    assert again.items[0].reason.startswith("the policy was tightened: ")
    assert desk.payments.requests() == []
    await desk.decide(again.id, APPROVE, who=DIRECTOR)
    answer_of(await desk.until(job_id))
    assert len(desk.refunds()) == 1


async def test_what_the_provider_gets_is_what_the_reviewer_wrote(calm_desk: Desk) -> None:
    job_id = await calm_desk.submit("Refund 60.00 on order E-1 because it came late.")
    review = await calm_desk.pending_review(job_id)
    args = {"order_id": "E-1", "amount": 25.5, "reason": "Half of it."}
    await calm_desk.decide(review.id, {"type": "edit", "edited_action": {"name": "refund", "args": args}})
    answer = answer_of(await calm_desk.until(job_id))

    (request,) = [one for one in calm_desk.payments.requests() if one["request"]["order_id"] == "E-1"]
    assert request["request"] == args
    assert (await calm_desk.effect(job_id, "refund")).args == args
    assert "A reviewer changed this call" in answer


async def test_a_call_whose_digest_does_not_match_is_a_hard_error_for_an_operator(desk: Desk) -> None:
    job_id = await _approved_without_a_worker(desk)
    await desk.sql("UPDATE signoff.effects SET digest = 'another'")
    desk.start_worker()
    held = await desk.until(job_id, JobStatus.awaiting_operator)

    assert held.error_code == "digest_mismatch"
    effect = await desk.effect(job_id, "refund")
    assert (effect.status, effect.attempts) == (EffectStatus.planned, 0)
    await desk.retry(job_id)
    await desk.until(job_id, JobStatus.queued, JobStatus.running)
    assert (await desk.until(job_id, JobStatus.awaiting_operator)).error_code == "digest_mismatch"
    assert desk.refunds() == []


async def _approved_without_a_worker(desk: Desk) -> UUID:
    """A job whose refund Ravi has approved, and which no worker has gone on with."""
    worker = desk.start_worker()
    job_id = await desk.submit(REFUND)
    review = await desk.pending_review(job_id)
    worker.kill()
    await desk.decide(review.id, APPROVE, who=RAVI)
    return job_id


async def _is_revoked_and_told(desk: Desk, job_id: UUID, words: str) -> None:
    answer = answer_of(await desk.until(job_id))
    effect = await desk.effect(job_id, "refund")
    assert (effect.status, effect.attempts) == (EffectStatus.revoked, 0)
    assert words in str(effect.error_message)
    assert desk.payments.requests() == []
    told = (await desk.results(job_id))["refund"]
    assert told.status == "error"
    assert "The approval of this call no longer holds" in str(told.text)
    assert "Not done" in answer
