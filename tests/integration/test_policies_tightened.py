"""A policy that was tightened since a call was allowed: it goes back to review, or it does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.errors import NotAReviewer
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.operating import Settlement, replay_effect
from signoff.domain.policy import Rule, allow, deny, review
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import OPERATOR, SECOND_REVIEWER
from tests.support.till import APPROVE, DORA, FINANCE, PAY, Shop, Till

pytestmark = pytest.mark.anyio

DIRECTORS = [review("pay", reviewers=["directors"], name="directors")]
TWO = [review("pay", reviewers=["finance"], approvals=2, name="two")]


class Once:
    """A condition that holds the first time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, facts: object) -> bool:
        self.asked += 1
        return self.asked == 1


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        async with services.store.begin() as tx:
            await tx.principals.create(DORA)
        yield services.store


async def approved(store: PostgresStore, till: Till) -> Job:
    """A job whose payment somebody in finance has approved."""
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    await shop.say(job.id, APPROVE)
    return await shop.job(job.id)


async def went_back(store: PostgresStore, till: Till, rules: list[Rule], job: Job) -> Shop:
    """The worker with the newer policy, which has sent the payment back to review."""
    shop = Shop(store, till, rules, "Done.")
    after = await shop.run(job.id)
    assert after.status is JobStatus.awaiting_review, (after.error_code, after.error_message)
    assert till.paid == []
    return shop


async def test_a_call_that_went_back_runs_once_when_it_is_approved(store: PostgresStore) -> None:
    till = Till()
    job = await approved(store, till)
    shop = await went_back(store, till, DIRECTORS, job)
    item = await shop.item(job.id)
    assert (item.tool, item.reviewers, item.rule) == ("pay", ("directors",), "directors")
    assert item.reason == "the policy was tightened: 'directors' says review"
    assert [str(word) for word in item.allowed_decisions] == ["approve", "reject"]
    with pytest.raises(NotAReviewer):
        await shop.say(job.id, APPROVE)
    # Nothing has been decided: the job comes back to where it was.
    await shop.sql("UPDATE signoff.jobs SET status = 'queued' WHERE id = %s", job.id)
    assert (await shop.run(job.id)).status is JobStatus.awaiting_review
    assert len(await shop.sql("SELECT id FROM signoff.reviews")) == 2

    await shop.say(job.id, APPROVE, who=DORA)
    done = await shop.run(job.id)
    assert done.status is JobStatus.succeeded
    assert till.paid == [("ada", 30)]
    (row,) = await shop.sql("SELECT d.reviewer FROM signoff.effects e JOIN signoff.decisions d ON d.id = e.decision_id")
    assert row["reviewer"] == "dora"


async def test_a_call_that_went_back_never_runs_when_it_is_refused_or_late(store: PostgresStore) -> None:
    till = Till()
    job = await approved(store, till)
    shop = await went_back(store, till, DIRECTORS, job)
    await shop.say(job.id, {"type": "reject", "message": "Too much."}, who=DORA)
    (effect,) = await shop.effects(job.id)
    assert (effect.status, effect.error_message) == (EffectStatus.revoked, "reject by dora: Too much.")
    done = await shop.run(job.id)
    assert done.status is JobStatus.succeeded
    assert "no longer holds: reject by dora: Too much. pay did not run" in await shop.told(done)

    late = await approved(store, till)
    shop = await went_back(store, till, [review("pay", reviewers=["directors"], deadline_seconds=60)], late)
    await shop.pass_deadlines()
    assert (await shop.run(late.id)).status is JobStatus.succeeded
    (effect,) = await shop.effects(late.id)
    assert effect.status is EffectStatus.revoked
    assert till.paid == []


async def test_a_call_that_is_denied_by_now_does_not_run_and_nobody_is_asked(store: PostgresStore) -> None:
    till = Till()
    job = await approved(store, till)
    shop = Shop(store, till, [deny("pay")], "Done.")
    done = await shop.run(job.id)
    assert done.status is JobStatus.succeeded
    assert "the policy now denies it" in await shop.told(done)
    assert till.paid == []


async def test_more_people_than_have_approved_are_asked_for_and_each_of_them_anew(store: PostgresStore) -> None:
    till = Till()
    shop = Shop(store, till, [review("*", reviewers=["finance"], hide=["to"], description="To somebody")])
    job = await shop.open()
    await shop.say(job.id, APPROVE)
    shop = await went_back(store, till, TWO, job)
    item = await shop.item(job.id)
    assert (item.terms.approvals, item.terms.hidden, item.description) == (2, ("to",), "pay needs a decision")
    await shop.say(job.id, APPROVE)
    assert (await shop.job(job.id)).status is JobStatus.awaiting_review
    await shop.say(job.id, APPROVE, who=SECOND_REVIEWER)
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    assert till.paid == [("ada", 30)]


@pytest.mark.parametrize("approves", [True, False])
async def test_a_call_that_the_gate_let_pass_is_judged_again(store: PostgresStore, approves: bool) -> None:
    till = Till()
    shop = Shop(store, till, [allow("pay", when=Once(), reviewers=["finance"]), *FINANCE])
    job = await shop.open()
    assert job.status is JobStatus.awaiting_review
    assert await shop.effects(job.id) == []
    assert (await shop.item(job.id)).reason.startswith("what allowed it does not any more: ")
    await shop.say(job.id, APPROVE if approves else {"type": "reject", "message": "No."})
    done = await shop.run(job.id)
    assert done.status is JobStatus.succeeded
    assert till.paid == ([("ada", 30)] if approves else [])
    assert approves or "A reviewer rejected this call. pay did not run. Reason: No." in await shop.told(done)


async def test_a_try_that_came_to_nothing_is_repeated_only_by_leave_of_the_policy_as_it_is_now(
    store: PostgresStore,
) -> None:
    till = Till(refusals=1)
    job = await Shop(store, till, [allow("*")]).open()
    shop = Shop(store, till, FINANCE, "Done.")
    await shop.hurry()
    assert (await shop.run(job.id)).status is JobStatus.awaiting_review
    await shop.say(job.id, APPROVE)
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    assert till.paid == [("ada", 30)]


async def test_a_call_that_went_back_and_one_that_was_asked_about_wait_each_for_itself(store: PostgresStore) -> None:
    till = Till()
    let_pass = allow("pay", when=Once(), reviewers=["finance"])
    shop = Shop(
        store, till, [let_pass, *DIRECTORS, *FINANCE], calling(PAY, ("credit", {"to": "bo", "amount": 5})), "Done."
    )
    job = await shop.open()
    async with store.begin() as tx:
        reviews = await tx.reviews.of_job(job.id)
    assert sorted(one.items[0].tool for one in reviews) == ["credit", "pay"]
    asked = {one.items[0].tool: one for one in reviews}
    await shop.answer(asked["credit"].id, APPROVE)
    # The credit waits for its sibling to be settled, and the payment is still asked about.
    assert (await shop.run(job.id)).status is JobStatus.awaiting_review
    assert till.paid == []
    await shop.answer(asked["pay"].id, APPROVE, who=DORA)
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    assert sorted(till.paid) == [("ada", 30), ("bo", 5)]
    assert len(await shop.sql("SELECT id FROM signoff.reviews")) == 2


async def test_an_effect_that_was_ever_in_doubt_stays_so_when_the_policy_wants_more(store: PostgresStore) -> None:
    till = Till()
    job = await approved(store, till)
    shop = Shop(store, till, DIRECTORS, "Done.")
    await shop.sql(
        "UPDATE signoff.effects SET status = 'retry_wait', class = 'idempotent', attempts = 1, doubt_since = now(),"
        " first_dispatched_at = now()"
    )
    assert (await shop.run(job.id)).status is JobStatus.awaiting_operator
    (effect,) = await shop.effects(job.id)
    assert effect.status is EffectStatus.in_doubt
    assert till.paid == []


async def test_a_replayed_call_whose_run_is_over_is_not_sent_where_it_needs_a_review_now(store: PostgresStore) -> None:
    till = Till()
    job = await Shop(store, till, [allow("*")]).open()
    await Shop(store, till, FINANCE).sql("UPDATE signoff.effects SET status = 'failed', ended_at = now()")
    (effect,) = await Shop(store, till, FINANCE).effects(job.id)
    await replay_effect(store, NoHints(), effect.operation_id, Settlement(OPERATOR, "again"))
    shop = Shop(store, till, FINANCE)
    await shop.enrol()
    await shop.alone.run(effect.operation_id)
    (effect,) = await shop.effects(job.id)
    assert effect.status is EffectStatus.revoked
    assert "its run is over, so it takes a new job to ask for it" in str(effect.error_message)
    assert till.paid == [("ada", 30)]


async def test_a_call_that_is_asked_about_waits_for_the_answer_though_the_policy_was_loosened(
    store: PostgresStore,
) -> None:
    till = Till()
    shop = Shop(store, till, FINANCE, calling(PAY, ("credit", {"to": "bo", "amount": 5})))
    job = await shop.open()
    await shop.say(job.id, APPROVE, APPROVE)
    await went_back(store, till, [review("*", reviewers=["directors"])], job)
    async with store.begin() as tx:
        asked = {one.items[0].tool: one.id for one in await tx.reviews.of_job(job.id) if len(one.items) == 1}
    await shop.answer(asked["credit"], APPROVE, who=DORA)
    loose = Shop(store, till, [allow("*")], "Done.")
    assert (await loose.run(job.id)).status is JobStatus.awaiting_review
    assert till.paid == [("bo", 5)]
    await shop.answer(asked["pay"], {"type": "reject", "message": "No."}, who=DORA)
    assert (await loose.run(job.id)).status is JobStatus.succeeded
    assert till.paid == [("bo", 5)]


async def test_a_worker_with_an_older_policy_leaves_the_call_to_a_newer_one(store: PostgresStore) -> None:
    till = Till()
    old, new = Shop(store, till, FINANCE), Shop(store, till, [review("*", reviewers=["directors"])])
    job = await old.open()
    await old.say(job.id, APPROVE)
    await new.enrol()
    await old.runner.run_hinted(job.id)
    left = await old.job(job.id)
    assert (left.status, left.error_code, till.paid) == (JobStatus.queued, "policy_outdated", [])
    await old.hurry()
    assert (await new.run(job.id)).status is JobStatus.awaiting_review
    assert till.paid == []


async def test_a_worker_with_an_older_policy_allows_nothing_by_its_rules(store: PostgresStore) -> None:
    till = Till()
    old, new = Shop(store, till, [allow("*")]), Shop(store, till, FINANCE)
    await new.enrol()
    job = await old.submit()
    await old.runner.run_hinted(job.id)
    assert ((await old.job(job.id)).error_code, till.paid) == ("policy_outdated", [])


async def test_a_worker_with_an_older_policy_sends_no_replayed_call(store: PostgresStore) -> None:
    till = Till()
    shop = Shop(store, till, [allow("*")])
    job = await shop.open()
    await shop.sql("UPDATE signoff.effects SET status = 'failed', ended_at = now()")
    (effect,) = await shop.effects(job.id)
    await replay_effect(store, NoHints(), effect.operation_id, Settlement(OPERATOR, "again"))
    paid = list(till.paid)
    await Shop(store, till, FINANCE).enrol()
    await shop.alone.run(effect.operation_id)
    assert till.paid == paid
