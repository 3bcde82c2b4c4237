"""Claims, assignments, comments and cancelling, on Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from signoff.domain.authority import Grant, Principal
from signoff.domain.deciding import expire_review
from signoff.domain.errors import (
    AlreadyDecided,
    BeyondAuthority,
    InvalidRequest,
    NotAReviewer,
    ReviewCancelled,
    ReviewClaimed,
    ReviewExpired,
    ReviewNotFound,
    RightMissing,
    SignoffError,
    SubmitterMayNotDecide,
    UnknownItem,
)
from signoff.domain.jobs import JobStatus
from signoff.domain.pauses import ReviewPause
from signoff.domain.reassigning import reassign
from signoff.domain.review_acts import cancel_review, claim, comment, release
from signoff.domain.running import park
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import dump, open_store
from tests.support.parked import OPERATOR, PRODUCER, REVIEWER, SECOND_REVIEWER, STRANGER, claimed, parked, refund
from tests.support.reviewing import APPROVE, PAT, REJECT, acts, change, decide, look, rows

pytestmark = pytest.mark.anyio

take = partial(claim, environment="test")
assign = partial(reassign, environment="test")
TWO = {"approvals": 2}
END_CLAIM = "UPDATE signoff.reviews SET claimed_until = clock_timestamp() WHERE id = %s"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=4) as services:
        async with services.store.begin() as tx:
            await tx.principals.create(PAT)
        yield services.store


async def cancel(store: PostgresStore, review_id: UUID, who: Principal, reason: Any = "a test order") -> None:
    await cancel_review(store, NoHints(), review_id, who, reason, environment="test")


# --- claims ---------------------------------------------------------------------------------------------------


async def test_a_claim_keeps_others_out_until_it_ends(store: PostgresStore) -> None:
    review_id = (await parked(store)).review_id
    until = await take(store, review_id, REVIEWER, seconds=600)
    for refused in (decide(store, review_id, who=SECOND_REVIEWER), take(store, review_id, SECOND_REVIEWER)):
        with pytest.raises(ReviewClaimed) as error:
            await refused
        assert error.value.details["claimed_by"] == "rita"
    assert await take(store, review_id, REVIEWER, seconds=1) == until, "a claim only grows"
    assert await take(store, review_id, REVIEWER, seconds=700) > until
    await change(store, END_CLAIM, review_id)
    await take(store, review_id, SECOND_REVIEWER)
    assert (await decide(store, review_id, who=SECOND_REVIEWER)).status == "decided"
    assert await acts(store, review_id) == [("claimed", "rita")] * 3 + [("claimed", "ravi")]


async def test_a_claim_is_released_by_who_has_it_or_an_operator(store: PostgresStore) -> None:
    review_id = (await parked(store)).review_id
    await release(store, review_id, SECOND_REVIEWER)
    await take(store, review_id, REVIEWER)
    with pytest.raises(RightMissing):
        await release(store, review_id, SECOND_REVIEWER)
    await release(store, review_id, OPERATOR)
    await take(store, review_id, SECOND_REVIEWER)
    await release(store, review_id, SECOND_REVIEWER)
    assert (await look(store, review_id))[0].claimed_by is None
    assert [act for act, _ in await acts(store, review_id)] == ["claimed", "released"] * 2


async def test_a_claim_does_not_stop_a_deadline(store: PostgresStore) -> None:
    review_id = (await parked(store, refund(deadline_seconds=0.001))).review_id
    with pytest.raises(ReviewExpired):
        await take(store, review_id, REVIEWER)
    later = (await parked(store, refund(deadline_seconds=900))).review_id
    await take(store, later, REVIEWER)
    await change(store, "UPDATE signoff.items SET deadline_at = clock_timestamp() WHERE review_id = %s", later)
    assert await expire_review(store, NoHints(), later)
    assert (await look(store, later))[0].status == "expired"


async def test_a_voice_of_several_ends_ones_claim(store: PostgresStore) -> None:
    review_id = (await parked(store, refund(terms=TWO))).review_id
    await take(store, review_id, REVIEWER)
    assert (await decide(store, review_id)).status == "pending"
    with pytest.raises(AlreadyDecided, match="had their voice"):
        await take(store, review_id, REVIEWER)
    assert (await decide(store, review_id, who=SECOND_REVIEWER)).status == "decided"


async def test_a_claim_stays_while_its_holder_decides_item_by_item(store: PostgresStore) -> None:
    review_id = (await parked(store, refund(tool_call_id="a"), refund(tool_call_id="b"))).review_id
    await take(store, review_id, REVIEWER)
    await decide(store, review_id, {**APPROVE, "tool_call_id": "a"})
    with pytest.raises(ReviewClaimed):
        await decide(store, review_id, {**APPROVE, "tool_call_id": "b"}, who=SECOND_REVIEWER)


@pytest.mark.parametrize("seconds", [0, 86_401, -1, float("nan"), float("inf"), True, "900"])
async def test_a_claim_is_a_second_to_a_day_long(seconds: Any) -> None:
    with pytest.raises(InvalidRequest):
        await take(None, uuid4(), REVIEWER, seconds=seconds)  # type: ignore[arg-type]


# --- who ------------------------------------------------------------------------------------------------------


async def test_who_may_not_decide_does_nothing_but_comment(store: PostgresStore, database_url: str) -> None:
    review_id = (await parked(store, who=PAT)).review_id
    limited = replace(REVIEWER, limited=True, grants=(Grant(uuid4(), ("refund",), "args.amount < 10"),))
    before = dump(database_url)
    whom = {STRANGER: ReviewNotFound, PAT: SubmitterMayNotDecide, limited: BeyondAuthority, OPERATOR: NotAReviewer}
    for who, error in whom.items():
        with pytest.raises(error):
            await take(store, review_id, who)
        if who is not OPERATOR:
            with pytest.raises(error):
                await assign(store, review_id, who, ["@ravi"])
            with pytest.raises(error):
                await cancel(store, review_id, who)
    revoked = replace(OPERATOR, revoked=True)
    for refused in (cancel(store, review_id, revoked), comment(store, review_id, STRANGER, "hello")):
        with pytest.raises(ReviewNotFound):
            await refused
    assert dump(database_url) == before


async def test_whoever_sees_a_review_comments_also_when_it_is_closed(store: PostgresStore) -> None:
    review_id = (await parked(store)).review_id
    await comment(store, review_id, PRODUCER, "  it is\x00 urgent ")
    await decide(store, review_id)
    await comment(store, review_id, OPERATOR, "late")
    (first, second) = await rows(store, "SELECT actor, message FROM signoff.review_acts ORDER BY position")
    assert (first["message"], second["actor"]) == ("it is\ufffd urgent", "olga")
    (told, _) = await rows(store, "SELECT data FROM signoff.events WHERE type LIKE '%%commented%%' ORDER BY sequence")
    assert told["data"]["message"] == "it is\ufffd urgent"
    for bad in ("", "  ", "x" * 20_001, None, 7):
        with pytest.raises(InvalidRequest):
            await comment(store, review_id, REVIEWER, bad)  # type: ignore[arg-type]


# --- assignments ------------------------------------------------------------------------------------------------


async def test_an_assignment_narrows_and_to_nobody_widens_again(store: PostgresStore) -> None:
    review_id = (await parked(store)).review_id
    await take(store, review_id, REVIEWER)
    await assign(store, review_id, SECOND_REVIEWER, ["@ravi"], reason="he knows them")
    with pytest.raises(NotAReviewer):
        await decide(store, review_id)
    with pytest.raises(NotAReviewer):
        await take(store, review_id, REVIEWER)
    await assign(store, review_id, REVIEWER, [])
    assert (await decide(store, review_id)).status == "decided"
    assert await acts(store, review_id) == [("claimed", "rita"), ("reassigned", "ravi"), ("reassigned", "rita")]


async def test_an_assignment_is_to_those_who_can_decide_the_item(store: PostgresStore, database_url: str) -> None:
    other = refund(30, tool_call_id="other", reviewers=["directors", "finance"])
    review_id = (await parked(store, refund(terms=TWO, tool_call_id="first"), other, who=PAT)).review_id
    await decide(store, review_id, {**APPROVE, "tool_call_id": "first"})
    first, second = (await look(store, review_id))[0].items
    before = dump(database_url)
    bad: list[Any] = [["@nobody"], ["@olga"], ["@sam"], ["legal"], ["directors"], ["@pat"], ["@rita"], [""], "finance"]
    for to in [*bad, [7], ["@ravi", "@sam"]]:
        with pytest.raises(InvalidRequest) as refused:
            await assign(store, review_id, OPERATOR, to, item_id=first.id)
        assert refused.value.details["field"] == "to"
    with pytest.raises(InvalidRequest) as both:
        await assign(store, review_id, OPERATOR, ["directors"])
    assert both.value.details["may_decide"] == ["finance"]
    with pytest.raises(UnknownItem):
        await assign(store, review_id, OPERATOR, [], item_id=uuid4())
    assert dump(database_url) == before
    await assign(store, review_id, OPERATOR, ["directors", "@ravi"], item_id=second.id)
    assert [item.assigned_to for item in (await look(store, review_id))[0].items] == [(), ("directors", "@ravi")]


# --- cancelling ---------------------------------------------------------------------------------------------------


async def test_cancelling_ends_what_is_open_and_what_was_approved_still_runs(store: PostgresStore) -> None:
    job = await parked(store, refund(tool_call_id="a"), refund(tool_call_id="b"), refund(terms=TWO, tool_call_id="c"))
    for name in ("a", "c"):
        await decide(store, job.review_id, {**APPROVE, "tool_call_id": name})
    await take(store, job.review_id, SECOND_REVIEWER)
    with pytest.raises(ReviewClaimed):
        await cancel(store, job.review_id, REVIEWER)
    await cancel(store, job.review_id, OPERATOR)
    review, after = await look(store, job.review_id)
    assert (review.status, after.status) == ("cancelled", JobStatus.queued)
    assert [item.status for item in review.items] == ["decided", "cancelled", "cancelled"]
    (effect,) = await rows(store, "SELECT operation_id, status FROM signoff.effects")
    assert effect == {"operation_id": review.items[0].operation_id, "status": "planned"}
    (told,) = await rows(store, "SELECT data FROM signoff.events WHERE type = 'signoff.review.cancelled.v1'")
    assert told["data"]["reason"] == "a test order"
    assert (await acts(store, job.review_id))[-1] == ("cancelled", "olga")


async def test_a_reviewer_of_all_that_is_open_cancels_with_a_reason(store: PostgresStore) -> None:
    whole = (await parked(store)).review_id
    for reason in ("", None):
        with pytest.raises(InvalidRequest):
            await cancel(store, whole, REVIEWER, reason)
    await cancel(store, whole, REVIEWER)
    part = (await parked(store, refund(), refund(reviewers=["directors"]))).review_id
    with pytest.raises(NotAReviewer):
        await cancel(store, part, REVIEWER)


async def test_a_cancelled_review_is_an_answer_to_a_run_that_parks_at_it_again(store: PostgresStore) -> None:
    job = await parked(store)
    await cancel(store, job.review_id, OPERATOR)
    interrupt_id = (await look(store, job.review_id))[0].interrupt_id
    again = await claimed(store, job.job_id)
    async with store.begin() as tx:
        await tx.jobs.fence(again)
        status = await park(tx, again, [ReviewPause(interrupt_id, (), "policy")], "checkpoint-2")
    assert status is JobStatus.queued


async def test_nothing_is_done_with_a_closed_review(store: PostgresStore, database_url: str) -> None:
    decided = (await parked(store)).review_id
    await decide(store, decided, REJECT)
    cancelled = (await parked(store)).review_id
    await cancel(store, cancelled, OPERATOR)
    expired = (await parked(store, refund(deadline_seconds=0.001))).review_id
    await expire_review(store, NoHints(), expired)
    before = dump(database_url)
    closed: dict[UUID, type[SignoffError]] = {
        decided: AlreadyDecided,
        cancelled: ReviewCancelled,
        expired: ReviewExpired,
    }
    for review_id, error in closed.items():
        for act in (take(store, review_id, REVIEWER), release(store, review_id, REVIEWER)):
            with pytest.raises(error):
                await act
        for act in (assign(store, review_id, REVIEWER, []), cancel(store, review_id, OPERATOR)):
            with pytest.raises(error):
                await act
    assert dump(database_url) == before
