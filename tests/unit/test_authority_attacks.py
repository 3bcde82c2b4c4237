"""Ways round the rules of reviews that somebody with some rights might try."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.authority import Grant, Right, may_read_job, seen_as
from signoff.domain.decisions import Answer
from signoff.domain.dialects.agent_inbox import AgentInbox
from signoff.domain.errors import EditOutsideSchema, InvalidRequest, StaleDecision
from signoff.domain.judging import judge_answers
from signoff.domain.policy import Policy, Verdict, allow, deny, review
from signoff.domain.registered import Registered
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import Review, Settled
from signoff.domain.standing import StandingApproval, judge_standing
from tests.unit.test_reviews import NOW as REVIEWED
from tests.unit.test_reviews import RAVI, RITA, a_review, an_item, edit
from tests.unit.test_reviews_several import APPROVE, after, delegate, judge
from tests.unit.test_standing import ALLOW, CALL, DENY, NOW

SECRET = "DE02-SECRET"
PAYEE = {"amount": 600, "iban": SECRET}
HIDDEN = ReviewTerms(hidden=("iban",), edits_need_another=True)
ROGER = replace(RITA, name="roger")


def settled(review_: Any, raw: Any, who: Any, policy: Policy) -> Settled:
    found = judge(review_, raw, who, policy)
    assert isinstance(found, Settled)
    return found


# --- an edit needs another person ------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [review("refund", reviewers=["finance"]), allow("refund")], ids=["review", "allow"])
def test_an_edit_of_an_edit_still_needs_another_person(small: Any) -> None:
    policy = Policy([review("refund", when="args.amount > 500", reviewers=["finance"], edits_need_another=True), small])
    item = an_item(args={"amount": 600}, terms=ReviewTerms(edits_need_another=True))
    once = after(a_review(item), edit(20), RITA, policy)
    twice = after(once, {**edit(30), "revision": 2}, RAVI, policy)
    assert twice.items[0].decision is None
    assert twice.items[0].spoken == {"ravi"}
    assert after(twice, {**APPROVE, "revision": 3}, RITA, policy).items[0].decision


def test_nobody_edits_a_call_out_of_sight_of_the_rules_alone() -> None:
    refused = deny("refund", when="args.amount > 1000", reviewers=["finance"])
    policy = Policy([refused, review("refund", reviewers=["finance"])])
    assert after(a_review(), edit(1000), RITA, policy).items[0].decision
    # An integer that a checkpoint can hold, and a condition can't.
    amended = after(a_review(), edit(2**63), RITA, policy)
    assert amended.items[0].decision is None
    assert amended.items[0].spoken == {"rita"}
    assert after(amended, {**APPROVE, "revision": 2}, RAVI, policy).items[0].decision
    # What only the agent's own process can answer, the executor asks there.
    callable_ = review("refund", when=lambda facts: True, reviewers=["finance"])
    elsewhere = Policy.from_dict(Policy([callable_]).to_dict())
    assert after(a_review(), edit(20), RITA, elsewhere).items[0].decision


# --- what is hidden ----------------------------------------------------------------------------------------------


def test_what_was_hidden_is_not_told_by_the_rule_of_the_amended_call() -> None:
    policy = Policy(
        [
            review("refund", when="args.amount > 500", reviewers=["finance"], hide=["iban"], edits_need_another=True),
            review("refund", reviewers=["finance"], description="To {args.iban}", show=["args.iban"]),
        ]
    )
    item = an_item(args=PAYEE, terms=HIDDEN, args_schema=None)
    revision = settled(a_review(item), edit(20, iban="[hidden]"), RITA, policy).revision
    assert revision is not None
    assert revision.args == {"amount": 20, "iban": SECRET}
    assert (revision.description, revision.shown) == ("To [hidden]", {"args.iban": "[hidden]"})


@pytest.mark.parametrize(
    ("schema", "amount"),
    [
        ({"type": "object", "anyOf": [{"properties": {"amount": {"type": "integer"}}}, {"maxProperties": 1}]}, "x"),
        ({"type": "object", "maxProperties": 1}, 20),
    ],
)
def test_a_hidden_value_is_not_told_by_the_schema_that_an_edit_does_not_fit(schema: Any, amount: Any) -> None:
    names = {"additionalProperties": True}
    item = an_item(args=PAYEE, terms=ReviewTerms(hidden=("iban",)), args_schema={**schema, **names})
    with pytest.raises(EditOutsideSchema) as refused:
        judge(a_review(item), edit(amount, iban="[hidden]"), RITA)
    assert SECRET not in refused.value.message + str(refused.value.details)


def test_an_echo_without_the_hidden_value_does_not_say_which_revision_was_seen() -> None:
    policy = Policy([review("refund", reviewers=["finance"], hide=["iban"], edits_need_another=True)])
    proposed = a_review(an_item(args=PAYEE, terms=HIDDEN, args_schema=None))
    amended = after(proposed, edit(600, iban="ANOTHER"), RITA, policy)
    for seen, fits in (("[hidden]", False), (SECRET, False), ("ANOTHER", True)):
        echo = {"action": "refund", "args": {"amount": "600", "iban": seen}}
        with nullcontext() if fits else pytest.raises((StaleDecision, InvalidRequest)):
            (answer,) = AgentInbox().read([{"type": "accept", "args": echo}], amended)
            assert _judged(amended, answer, policy).ends


def _judged(review_: Review, answer: Answer, policy: Policy) -> Settled:
    registered = Registered("desk", {"submitted_by": "shop"}, "test", policy, {})
    judged = judge_answers(
        review_, [answer], RAVI, now=REVIEWED, registered=registered, lineage_root="root", new_id=uuid4
    )
    return judged.new[0]


# --- delegation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [{"revoked": True}, {"rights": frozenset({Right.submit})}])
def test_a_delegate_sees_nothing_of_a_delegator_who_may_not_decide_any_more(lost: Any) -> None:
    outsider = replace(RAVI, groups=frozenset())
    who = delegate(outsider, replace(RITA, **lost))
    assert seen_as(who) == ["@ravi"]
    assert not may_read_job(who, "shop", {"finance"})


# --- a word given beforehand -------------------------------------------------------------------------------------


def test_no_standing_approval_lets_a_call_pass_that_a_denying_rule_could_not_look_into() -> None:
    policy = Policy(
        [deny("refund", when="args.amount > 1000", reviewers=["finance"]), review("refund", reviewers=["finance"])]
    )
    assert _stood(policy, 30, ALLOW) is Verdict.allow
    assert _stood(policy, 1001, ALLOW) is Verdict.deny
    # An integer that a checkpoint can hold, and a condition can't.
    assert _stood(policy, 2**63, ALLOW) is Verdict.review
    assert _stood(policy, 2**63, DENY) is Verdict.deny


def _stood(policy: Policy, amount: int, one: StandingApproval) -> Verdict:
    call = replace(CALL, args={"amount": amount})
    judgement = policy.judge(call.tool, {"amount": amount}, job=call.job, environment=call.environment)
    return judge_standing(judgement, [one], call, NOW).judgement.verdict


def test_an_edit_is_a_voice_of_whoever_could_allow_the_amended_call() -> None:
    within = Grant(uuid4(), ("refund",), "args.amount <= 50")
    dan = delegate(replace(RAVI, name="dan", limited=True, grants=(within,)), RITA)
    policy = Policy([review("refund", reviewers=["finance"])])
    beyond = settled(a_review(), edit(60), dan, policy).decision
    assert (beyond.counts, beyond.on_behalf_of) == (True, "rita")
    item = an_item(args={"amount": 60})
    back = settled(a_review(item), edit(40), dan, policy).decision
    assert (back.counts, back.on_behalf_of) == (True, None)
    # Rita has no second voice beside the one that was hers.
    twice = Policy([review("refund", reviewers=["finance"], approvals=2)])
    amended = after(a_review(an_item(terms=ReviewTerms(approvals=2))), edit(60), dan, twice)
    assert amended.items[0].spoken == {"dan", "rita"}
