"""Who has allowed a call, and whether that still counts when it is to be sent: people, standing approvals, time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.canonical import call_digest
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.policy import Rule, Verdict, review
from signoff.domain.standing import StandingApproval
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_effects import show_effect
from tests.support.api import open_store
from tests.support.models import ScriptedModel, calling
from tests.support.parked import AGENT, REVIEWER, SECOND_REVIEWER
from tests.support.till import APPROVE, DORA, FINANCE, PAY, Shop, Till

pytestmark = pytest.mark.anyio

STAN = Principal("stan", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.review, Right.standing}))
REVEALER = replace(REVIEWER, rights=frozenset({Right.see, Right.reveal}))
TWO = [review("pay", reviewers=["finance"], approvals=2)]
REFUSE = {"type": "reject", "message": "No.", "then": "revise"}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        async with services.store.begin() as tx:
            await tx.principals.create(DORA)
            await tx.principals.create(STAN)
        yield services.store


async def revoke(store: PostgresStore, name: str) -> None:
    async with store.begin() as tx:
        await tx.principals.revoke(name)


# --- several people ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revoked", [False, True])
async def test_as_many_people_must_hold_as_were_asked_for_though_the_policy_asks_fewer_now(
    store: PostgresStore, revoked: bool
) -> None:
    till = Till()
    shop = Shop(store, till, TWO)
    job = await shop.open()
    await shop.say(job.id, APPROVE)
    await shop.say(job.id, APPROVE, who=SECOND_REVIEWER)
    if revoked:
        await revoke(store, SECOND_REVIEWER.name)
    done = await Shop(store, till, FINANCE, "Done.").run(job.id)
    assert done.status is JobStatus.succeeded
    assert till.paid == ([] if revoked else [("ada", 30)])
    told = await shop.told(done)
    assert ("ravi, who approved it, may no longer decide this. pay did not run" in told) == revoked
    (effect,) = await shop.effects(job.id)
    assert effect.status is (EffectStatus.revoked if revoked else EffectStatus.succeeded)


async def test_an_amended_call_needs_everybody_that_its_amendment_asked_for(store: PostgresStore) -> None:
    till = Till()
    shop = Shop(store, till, [review("*", reviewers=["finance"], edits_need_another=True)])
    job = await shop.open()
    action = {"name": "pay", "args": {"to": "ada", "amount": 20}}
    await shop.say(job.id, {"type": "edit", "edited_action": action})
    await shop.say(job.id, {"type": "approve", "revision": 2}, who=SECOND_REVIEWER)
    await revoke(store, REVIEWER.name)
    done = await Shop(store, till, FINANCE, "Done.").run(job.id)
    assert "rita, who approved it, may no longer decide this" in await shop.told(done)
    assert till.paid == []


async def test_an_edit_that_its_editor_may_allow_alone_needs_nobody_else(store: PostgresStore) -> None:
    till = Till()
    much = review("pay", when="args.amount > 20", reviewers=["finance"], approvals=2)
    shop = Shop(store, till, [much, *FINANCE])
    job = await shop.open()
    await shop.say(job.id, {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "ada", "amount": 20}}})
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    assert till.paid == [("ada", 20)]


async def test_a_call_that_was_amended_and_then_allowed_runs_as_it_was_amended(store: PostgresStore) -> None:
    till = Till()
    rules = [review("*", reviewers=["finance"], edits_need_another=True, tool_changes=["credit"], hide=["to"])]
    shop = Shop(store, till, rules)
    job = await shop.open()
    action = {"name": "credit", "args": {"to": "ada", "amount": 20}}
    await shop.say(job.id, {"type": "edit", "edited_action": action})
    await shop.say(job.id, {"type": "approve", "revision": 2}, who=SECOND_REVIEWER)
    done = await shop.run(job.id)
    assert done.status is JobStatus.succeeded
    assert till.paid == [("ada", 20)]
    assert "A reviewer changed this call. What ran: credit(" in await shop.told(done)
    (row,) = await shop.sql("SELECT tool, hidden, digest FROM signoff.effects")
    assert row == {"tool": "credit", "hidden": ["to"], "digest": call_digest("credit", {"to": "ada", "amount": 20})}
    async with store.connection() as conn:
        (effect,) = await shop.effects(job.id)
        seen = await show_effect(conn, effect.operation_id, REVIEWER)
        revealed = await show_effect(conn, effect.operation_id, REVEALER)
    assert (seen["args"], revealed["args"]) == ({"to": "[hidden]", "amount": 20}, {"to": "ada", "amount": 20})
    approvals = [(one["type"], one["reviewer"]) for one in seen["authority"]["approvals"]]
    assert approvals == [("edit", "rita"), ("approve", "ravi")]
    assert isinstance(shop.agent.model, ScriptedModel)
    (call,) = shop.agent.model.asked[1][2].tool_calls  # type: ignore[attr-defined]
    assert (call["name"], call["args"]) == ("credit", {"to": "ada", "amount": 20})


# --- standing approvals ------------------------------------------------------------------------------------------


async def stand(store: PostgresStore, verdict: Verdict, **fields: Any) -> UUID:
    approval = StandingApproval(
        id=uuid4(),
        agent=AGENT,
        tool="pay",
        verdict=verdict,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        created_by=STAN,
        created_at=datetime.now(UTC),
        **fields,
    )
    async with store.begin() as tx:
        await tx.standing.add(approval)
    return approval.id


async def test_a_standing_approval_lets_a_call_run_and_is_kept_with_it(store: PostgresStore) -> None:
    till = Till()
    standing_id = await stand(store, Verdict.allow, condition="args.amount < 100")
    shop = Shop(store, till, FINANCE)
    assert (await shop.open()).status is JobStatus.succeeded
    assert till.paid == [("ada", 30)]
    (row,) = await shop.sql("SELECT standing_id, rule, decision_id FROM signoff.effects")
    assert row == {"standing_id": standing_id, "rule": f"standing approval {standing_id}", "decision_id": None}


async def test_a_standing_refusal_is_told_and_nobody_is_asked(store: PostgresStore) -> None:
    till = Till()
    await stand(store, Verdict.deny, reason="closed")
    shop = Shop(store, till, FINANCE)
    done = await shop.open()
    assert done.status is JobStatus.succeeded
    assert "stan refuses it by standing approval" in await shop.told(done)
    assert till.paid == []


@pytest.mark.parametrize("by", ["withdrawn", "its giver revoked", "refused since"])
async def test_a_standing_approval_is_judged_again_before_a_call_is_sent(store: PostgresStore, by: str) -> None:
    till = Till(refusals=1)
    standing_id = await stand(store, Verdict.allow)
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    assert job.status is JobStatus.queued
    if by == "withdrawn":
        async with store.begin() as tx:
            await tx.standing.revoke(standing_id, "stan")
    elif by == "refused since":
        await stand(store, Verdict.deny)
    else:
        await revoke(store, "stan")
    await shop.hurry()
    after = await shop.run(job.id)
    assert after.status is (JobStatus.succeeded if by == "refused since" else JobStatus.awaiting_review)
    assert till.paid == []


# --- time --------------------------------------------------------------------------------------------------------


def timed(at_deadline: str, **options: Any) -> list[Rule]:
    return [review("*", reviewers=["finance"], deadline_seconds=60, at_deadline=at_deadline, **options)]


async def test_what_only_reads_goes_on_when_nobody_has_decided_in_time(store: PostgresStore) -> None:
    till = Till("read")
    shop = Shop(store, till, timed("approve"))
    job = await shop.open()
    await shop.pass_deadlines()
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    assert till.paid == [("ada", 30)]


@pytest.mark.parametrize(
    ("effect_class", "rules"),
    [("read", timed("reject")), ("opaque", timed("reject")), ("read", timed("fail"))],
)
async def test_time_allows_nothing_that_the_policy_does_not_leave_to_it_any_more(
    store: PostgresStore, effect_class: str, rules: Sequence[Rule]
) -> None:
    job = await Shop(store, Till("read"), timed("approve")).open()
    till = Till(effect_class)
    shop = Shop(store, till, rules, "Done.")
    await shop.pass_deadlines()
    done = await shop.run(job.id)
    assert done.status is JobStatus.succeeded
    assert "Nobody decided about this call before its deadline. pay did not run." in await shop.told(done)
    assert till.paid == []


async def test_a_rule_may_end_the_job_when_nobody_has_decided_in_time(store: PostgresStore) -> None:
    till = Till()
    shop = Shop(store, till, timed("fail"))
    job = await shop.open()
    await shop.pass_deadlines()
    ended = await shop.run(job.id)
    assert (ended.status, ended.error_code) == (JobStatus.failed, "review_expired")
    assert "pay" in str(ended.error_message)
    assert till.paid == []
    # The thread goes on with the next job, as behind any that has failed.
    following = Shop(store, till, timed("fail"), "Hello.")
    assert (await following.run((await following.submit(thread_id=job.thread_id)).id)).status is JobStatus.succeeded


# --- refused again and again -------------------------------------------------------------------------------------


async def test_a_job_ends_whose_model_proposes_a_refused_call_again_and_again(store: PostgresStore) -> None:
    till = Till()
    answers = [calling(PAY) for _ in range(3)]
    shop = Shop(store, till, FINANCE, *answers, "Done.", max_refused_repeats=2)
    job = await shop.open()
    await shop.say(job.id, REFUSE)
    ended = await shop.run(job.id)
    assert (ended.status, ended.error_code) == (JobStatus.failed, "refused_repeatedly")
    assert ended.error_message == "the agent proposed pay 2 more times after exactly this call had been rejected"

    # One repeat less, and it is only told; the next message of the user begins anew.
    shop = Shop(store, till, FINANCE, *answers[:2], "Well.", calling(PAY), max_refused_repeats=2)
    job = await shop.open()
    await shop.say(job.id, REFUSE, who=REVIEWER)
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    again = await shop.submit(thread_id=job.thread_id)
    assert (await shop.run(again.id)).status is JobStatus.awaiting_review
    assert till.paid == []
