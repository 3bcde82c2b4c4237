"""Deciding, on Postgres: each kind, each refusal, each race."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from signoff.domain.authority import Principal
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.deciding import Decided, decide_review, expire_review
from signoff.domain.decisions import parse_answers
from signoff.domain.errors import AlreadyDecided, Conflict, ReviewCancelled, ReviewExpired, ReviewNotFound, SignoffError
from signoff.domain.jobs import JobStatus
from signoff.domain.judging import judge_answers
from signoff.domain.registered import Registered
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import dump, open_store, until
from tests.support.parked import PRODUCER, REVIEWER, SECOND_REVIEWER, STRANGER, parked, refund, submitted
from tests.support.reviewing import look, rows

pytestmark = pytest.mark.anyio

APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "no", "then": "stop"}
RESPOND = {"type": "respond", "message": "ask again"}


def edit(amount: Any = 20, name: str = "refund", order: str = "A-1") -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": {"order": order, "amount": amount}}}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def decide(store: PostgresStore, review_id: UUID, *raw: Any, who: Principal = REVIEWER) -> Decided:
    answers = parse_answers({"decisions": list(raw)})
    return await decide_review(store, NoHints(), review_id, answers, who, door="test", environment="test")


async def effects(store: PostgresStore, job_id: UUID) -> list[dict[str, Any]]:
    sql = "SELECT * FROM signoff.effects WHERE job_id = %s ORDER BY created_at"
    return await rows(store, sql, job_id)


async def test_an_approval_plans_the_effect_and_queues_the_job(store: PostgresStore) -> None:
    job = await parked(store)
    decided = await decide(store, job.review_id, APPROVE)
    review, after = await look(store, job.review_id)
    item = review.items[0]
    assert (decided.status, decided.repeated) == ("decided", False)
    assert (review.status, item.status, after.status) == ("decided", "decided", JobStatus.queued)
    assert decided.decisions == (item.decision,)
    (effect,) = await effects(store, job.job_id)
    assert (effect["operation_id"], effect["digest"], effect["status"]) == (item.operation_id, item.digest, "planned")
    (event,) = await rows(store, "SELECT * FROM signoff.events WHERE type = 'signoff.review.decided.v1'")
    assert event["actor"] == "rita"
    assert item.decision is not None
    assert event["data"]["items"][0]["decided_at"] == item.decision.brief()["decided_at"]


async def test_an_edit_plans_another_operation_with_the_edited_arguments(store: PostgresStore) -> None:
    job = await parked(store, refund(message_id="m-1"))
    await decide(store, job.review_id, edit(20))
    (effect,) = await effects(store, job.job_id)
    assert effect["operation_id"] == operation_id(job.thread_id, "m-1", 0, 1)
    assert effect["digest"] == call_digest("refund", {"order": "A-1", "amount": 20})
    assert effect["args"] == {"order": "A-1", "amount": 20}


@pytest.mark.parametrize("raw", [REJECT, RESPOND])
async def test_a_rejection_and_a_response_plan_nothing(store: PostgresStore, raw: dict[str, Any]) -> None:
    job = await parked(store)
    assert (await decide(store, job.review_id, raw)).status == "decided"
    assert (await look(store, job.review_id))[1].status is JobStatus.queued
    assert await effects(store, job.job_id) == []


async def test_items_are_decided_by_position_item_id_and_tool_call_id(store: PostgresStore) -> None:
    job = await parked(store, *(refund(30 + n, tool_call_id=f"call-{n}", ordinal=n) for n in range(3)))
    review, _ = await look(store, job.review_id)
    first = await decide(store, job.review_id, {**APPROVE, "item_id": str(review.items[0].id)})
    assert first.status == "pending"
    assert await effects(store, job.job_id) == []
    second = await decide(store, job.review_id, {**REJECT, "tool_call_id": "call-1"}, who=SECOND_REVIEWER)
    assert second.status == "pending"
    assert (await look(store, job.review_id))[1].status is JobStatus.awaiting_review
    last = await decide(store, job.review_id, {**edit(1), "tool_call_id": "call-2"})
    assert last.status == "decided"
    assert [effect["args"]["amount"] for effect in await effects(store, job.job_id)] == [30, 1]
    other = await parked(store, refund(30), refund(31))
    assert (await decide(store, other.review_id, APPROVE, REJECT)).status == "decided"
    assert [effect["args"]["amount"] for effect in await effects(store, other.job_id)] == [30]


REFUSALS: list[tuple[str, list[Any], Principal]] = [
    ("wrong_decision_count", [APPROVE, APPROVE], REVIEWER),
    ("unknown_item", [{**APPROVE, "tool_call_id": "nope"}], REVIEWER),
    ("unknown_item", [{**APPROVE, "item_id": str(uuid4())}], REVIEWER),
    ("duplicate_decision", [{**APPROVE, "tool_call_id": "call"}] * 2, REVIEWER),
    ("decision_not_allowed", [RESPOND], REVIEWER),
    ("edit_changes_tool", [edit(20, name="send_email")], REVIEWER),
    ("edit_outside_schema", [edit("many")], REVIEWER),
    ("edit_denied", [edit(1001)], REVIEWER),
    ("not_a_reviewer", [APPROVE], STRANGER),
    ("not_a_reviewer", [APPROVE], PRODUCER),
    ("not_a_reviewer", [APPROVE], replace(REVIEWER, revoked=True)),
]


@pytest.mark.parametrize(("code", "raw", "who"), REFUSALS)
async def test_a_bad_decision_changes_nothing_and_a_correct_one_still_counts(
    store: PostgresStore, database_url: str, code: str, raw: list[Any], who: Principal
) -> None:
    job = await parked(store, refund(tool_call_id="call", decisions=["approve", "edit", "reject"]))
    before = dump(database_url)
    with pytest.raises(SignoffError) as refused:
        await decide(store, job.review_id, *raw, who=who)
    assert refused.value.code == code
    assert dump(database_url) == before
    assert (await decide(store, job.review_id, APPROVE)).status == "decided"


async def test_one_bad_decision_among_good_ones_stores_none(store: PostgresStore, database_url: str) -> None:
    job = await parked(store, refund(30), refund(31))
    before = dump(database_url)
    with pytest.raises(SignoffError):
        await decide(store, job.review_id, APPROVE, edit("many"))
    assert dump(database_url) == before


async def test_a_review_that_is_not_there(store: PostgresStore) -> None:
    with pytest.raises(ReviewNotFound):
        await decide(store, uuid4(), APPROVE)


async def test_the_same_decision_twenty_times_at_once_is_one_decision(store: PostgresStore) -> None:
    job = await parked(store)
    answers = await asyncio.gather(*(decide(store, job.review_id, APPROVE) for _ in range(20)))
    assert len({str(answer.decisions) for answer in answers}) == 1
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 19
    assert len(await rows(store, "SELECT 1 FROM signoff.decisions")) == 1
    assert len(await effects(store, job.job_id)) == 1
    assert len(await rows(store, "SELECT 1 FROM signoff.events WHERE type = 'signoff.review.decided.v1'")) == 1


async def test_approve_and_reject_at_once_have_one_winner_whom_the_loser_is_told(store: PostgresStore) -> None:
    for _ in range(5):
        job = await parked(store)
        both = await asyncio.gather(
            decide(store, job.review_id, APPROVE, who=REVIEWER),
            decide(store, job.review_id, REJECT, who=SECOND_REVIEWER),
            return_exceptions=True,
        )
        (winner,) = [answer for answer in both if isinstance(answer, Decided)]
        (loser,) = [answer for answer in both if isinstance(answer, AlreadyDecided)]
        assert loser.details["winner"] == winner.decisions[0].brief()
        assert len(await effects(store, job.job_id)) == (winner.decisions[0].type == "approve")


async def test_a_cancelled_review_is_decided_no_more(store: PostgresStore) -> None:
    job = await parked(store)
    await submitted(store, thread_id=job.thread_id, cancel_pending=True)
    with pytest.raises(ReviewCancelled):
        await decide(store, job.review_id, APPROVE)


async def test_a_deadline_expires_what_is_open_and_what_was_approved_still_runs(store: PostgresStore) -> None:
    soon = refund(31, tool_call_id="soon", deadline_seconds=0.3)
    job = await parked(store, refund(30, tool_call_id="calm"), soon)
    assert not await expire_review(store, NoHints(), job.review_id)
    await decide(store, job.review_id, {**APPROVE, "tool_call_id": "calm"})

    async def expired() -> bool:
        return await expire_review(store, NoHints(), job.review_id)

    await until(expired)
    review, after = await look(store, job.review_id)
    assert (review.status, [item.status for item in review.items]) == ("expired", ["decided", "expired"])
    assert after.status is JobStatus.queued
    assert [effect["args"]["amount"] for effect in await effects(store, job.job_id)] == [30]
    with pytest.raises(ReviewExpired):
        await decide(store, job.review_id, {**APPROVE, "tool_call_id": "soon"})
    assert (await decide(store, job.review_id, {**APPROVE, "tool_call_id": "calm"})).repeated
    assert not await expire_review(store, NoHints(), job.review_id)


async def test_a_decision_after_the_deadline_is_refused_before_anybody_expires_it(store: PostgresStore) -> None:
    job = await parked(store, refund(deadline_seconds=0.001))

    async def refused() -> bool:
        try:
            await decide(store, job.review_id, REJECT)
        except ReviewExpired:
            return True
        return False

    assert await refused()
    assert (await look(store, job.review_id))[0].status == "pending"


async def test_what_was_left_open_can_be_decided_until_its_own_deadline(store: PostgresStore) -> None:
    soon = refund(31, tool_call_id="soon", deadline_seconds=0.001)
    job = await parked(store, refund(30, tool_call_id="calm"), soon)
    assert await expire_review(store, NoHints(), job.review_id)
    review, after = await look(store, job.review_id)
    assert (review.status, after.status) == ("pending", JobStatus.awaiting_review)
    assert (await decide(store, job.review_id, {**APPROVE, "tool_call_id": "calm"})).status == "expired"
    assert (await look(store, job.review_id))[1].status is JobStatus.queued


@pytest.mark.parametrize("moved", ["status = 'cancelled'", "status = 'expired'", "revision = 2"])
async def test_an_item_that_has_moved_since_it_was_read_takes_no_decision(
    store: PostgresStore, database_url: str, moved: str
) -> None:
    job = await parked(store)
    review, _ = await look(store, job.review_id)
    settled = judge_answers(
        review,
        parse_answers({"decisions": [APPROVE]}),
        REVIEWER,
        now=datetime.now(UTC),
        registered=Registered("desk", {"submitted_by": "shop"}, "test"),
        lineage_root="root",
        new_id=uuid4,
    ).new
    # The lock keeps this from happening; the row's own guard would, were it forgotten somewhere.
    await rows(store, f"UPDATE signoff.items SET {moved} WHERE review_id = %s RETURNING id", job.review_id)
    before = dump(database_url)
    with pytest.raises(Conflict):
        async with store.begin() as tx:
            await tx.reviews.decide(settled, "test")
    assert dump(database_url) == before
