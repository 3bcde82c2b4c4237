"""Items that need more than one person, and calls that were amended while they waited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.authority import Delegation, Grant, Principal, PrincipalKind, Right
from signoff.domain.decisions import parse_answers
from signoff.domain.errors import (
    AlreadyDecided,
    BeyondAuthority,
    EarlyDecision,
    EditChangesTool,
    EditDenied,
    EditOutsideSchema,
    NotAReviewer,
    ReviewClaimed,
    SignoffError,
    StaleDecision,
    SubmitterMayNotDecide,
)
from signoff.domain.judging import judge_answers
from signoff.domain.policy import Policy, deny, review
from signoff.domain.registered import Registered
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.review_view import review_view
from signoff.domain.reviews import Decision, Item, Proposal, Review, Settled, with_settled
from tests.unit.test_reviews import NOW, RAVI, RITA, SCHEMA, a_review, an_item, edit

DORA = Principal("dora", PrincipalKind.person, frozenset({"directors"}), frozenset({Right.review}))
DIRK = replace(DORA, name="dirk")
POLICY = Policy(
    [
        deny("refund", when="args.amount > 1000", reviewers=["finance"]),
        review("refund", when="args.amount > 500", reviewers=["directors"]),
        review("refund", reviewers=["finance"]),
        review("credit", reviewers=["finance"]),
    ]
)
TOOLS = {"refund": {"schema": SCHEMA}, "credit": {"schema": SCHEMA}}
TWO = ReviewTerms(approvals=2)
APPROVE = {"type": "approve"}


def judge(review_: Review, raw: Mapping[str, Any], who: Principal, policy: Policy = POLICY) -> Settled | Decision:
    judged = judge_answers(
        review_,
        parse_answers({"decisions": [raw]}),
        who,
        now=NOW,
        registered=Registered("desk", {"submitted_by": "shop"}, "test", policy, TOOLS),
        lineage_root="root",
        new_id=uuid4,
    )
    return judged.new[0] if judged.new else judged.known[0]


def after(review_: Review, raw: Mapping[str, Any], who: Principal, policy: Policy = POLICY) -> Review:
    """The review as the store has it afterwards."""
    settled = judge(review_, raw, who, policy)
    assert isinstance(settled, Settled)
    if settled.ends:
        return with_settled(review_, [settled])
    item = replace(settled.item, earlier=(*settled.item.earlier, settled.decision))
    return replace(review_, items=(_amended(item, settled),))


def _amended(item: Item, settled: Settled) -> Item:
    revision = settled.revision
    if revision is None:
        return item
    names = ("revision", "operation_id", "edits", "tool", "args", "digest", "reviewers", "terms", "allowed_decisions")
    proposed = Proposal(item.tool, item.args, item.digest, revision.proposed_by)
    return replace(item, proposed=proposed, **{name: getattr(revision, name) for name in names})


# --- several people -----------------------------------------------------------------------------------------


def test_an_item_stays_open_until_the_last_needed_decision() -> None:
    first = after(a_review(an_item(terms=TWO)), APPROVE, RITA)
    assert first.items[0].decision is None
    assert first.items[0].spoken == {"rita"}
    second = after(first, APPROVE, RAVI)
    decision = second.items[0].decision
    assert decision is not None
    assert decision.reviewer == "ravi"


def test_nobody_counts_twice_and_the_same_again_is_the_stored_answer() -> None:
    first = after(a_review(an_item(terms=TWO)), APPROVE, RITA)
    assert judge(first, APPROVE, RITA) == first.items[0].earlier[0]
    for other in ({"type": "reject"}, edit(20)):
        with pytest.raises(AlreadyDecided) as refused:
            judge(first, other, RITA)
        assert refused.value.details["winner"]["reviewer"] == "rita"


def test_one_rejection_ends_the_item() -> None:
    first = after(a_review(an_item(terms=ReviewTerms(approvals=3))), APPROVE, RITA)
    decision = after(first, {"type": "reject"}, RAVI).items[0].decision
    assert decision is not None
    assert not decision.allows


def delegate(to: Principal, of: Principal, **scope: Any) -> Principal:
    grant = Grant(
        uuid4(), scope.get("tools", ("*",)), scope.get("condition"), scope.get("until", NOW + timedelta(days=1))
    )
    return replace(to, delegations=(*to.delegations, Delegation(grant, of)))


def test_a_delegate_is_no_second_person_beside_the_delegator() -> None:
    dora = replace(DORA, groups=frozenset())
    delegated = delegate(dora, RITA)
    first = after(a_review(an_item(terms=TWO)), APPROVE, RITA)
    with pytest.raises(NotAReviewer):
        judge(first, APPROVE, delegated)
    # And the other way round: who has spoken through a delegate has spoken.
    through = after(a_review(an_item(terms=TWO)), APPROVE, delegated)
    assert through.items[0].earlier[0].on_behalf_of == "rita"
    with pytest.raises(AlreadyDecided):
        judge(through, APPROVE, RITA)


def test_who_submitted_the_job_does_not_decide() -> None:
    submitter = replace(RITA, name="shop")
    for raw in (APPROVE, {"type": "reject"}, edit(20)):
        with pytest.raises(SubmitterMayNotDecide):
            judge(a_review(), raw, submitter)
    with pytest.raises(SubmitterMayNotDecide):
        judge(a_review(), APPROVE, delegate(replace(DORA, name="shop"), RITA))


def test_limits_are_looked_at_with_the_arguments() -> None:
    grant = Grant(uuid4(), ("refund",), "args.amount <= 50")
    limited = replace(RITA, limited=True, grants=(grant,))
    assert after(a_review(), APPROVE, limited).items[0].decision
    with pytest.raises(BeyondAuthority):
        judge(a_review(an_item(args={"amount": 51})), APPROVE, limited)
    with pytest.raises(BeyondAuthority):
        judge(a_review(), APPROVE, replace(RITA, limited=True))


# --- amendments -----------------------------------------------------------------------------------------------


def test_an_edit_that_needs_somebody_else_goes_on_to_them() -> None:
    amended = after(a_review(), edit(600), RITA)
    item = amended.items[0]
    assert (item.decision, item.revision, item.args, item.may_decide) == (None, 2, {"amount": 600}, ("directors",))
    assert item.voices == ()
    with pytest.raises(NotAReviewer):
        judge(amended, {**APPROVE, "revision": 2}, RAVI)
    decision = after(amended, {**APPROVE, "revision": 2}, DORA).items[0].decision
    assert decision is not None
    assert (decision.args, decision.digest) == ({"amount": 600}, item.digest)
    assert decision.operation_id == item.operation_id != amended.items[0].asked_operation_id


def test_the_editor_is_not_the_only_approver_where_two_are_needed() -> None:
    policy = Policy([review("refund", reviewers=["finance"], approvals=2)])
    amended = after(a_review(an_item(terms=TWO)), edit(20), RITA, policy)
    item = amended.items[0]
    assert (item.decision, item.revision) == (None, 2)
    assert item.spoken == {"rita"}
    with pytest.raises(AlreadyDecided):
        judge(amended, {**APPROVE, "revision": 2}, RITA)
    assert after(amended, {**APPROVE, "revision": 2}, RAVI).items[0].decision


def test_an_approval_given_before_an_amendment_does_not_cover_it() -> None:
    policy = Policy([review("refund", reviewers=["finance"], approvals=2)])
    first = after(a_review(an_item(terms=TWO)), APPROVE, RITA, policy)
    amended = after(first, edit(20), RAVI, policy)
    assert amended.items[0].spoken == {"ravi"}
    assert after(amended, {**APPROVE, "revision": 2}, RITA, policy).items[0].decision


def test_a_rule_may_ask_for_another_person_after_an_edit() -> None:
    terms = ReviewTerms(edits_need_another=True)
    assert after(a_review(an_item(terms=terms)), APPROVE, RITA).items[0].decision
    amended = after(a_review(an_item(terms=terms)), edit(20), RITA)
    assert amended.items[0].decision is None
    assert after(amended, {**APPROVE, "revision": 2}, RAVI).items[0].decision


def test_what_is_denied_is_refused_at_once_in_any_revision() -> None:
    amended = after(a_review(), edit(600), RITA)
    for review_, who in ((a_review(), RITA), (amended, DORA)):
        with pytest.raises(EditDenied):
            judge(review_, {**edit(1001), "revision": review_.items[0].revision}, who)


def test_another_tool_is_refused_unless_the_rule_allows_it() -> None:
    other = edit(20, name="credit")
    with pytest.raises(EditChangesTool):
        judge(a_review(), other, RITA)
    with pytest.raises(EditChangesTool):
        judge(a_review(an_item(terms=ReviewTerms(tool_changes=("cr*",)))), edit(20, name="crash"), RITA)
    decision = after(a_review(an_item(terms=ReviewTerms(tool_changes=("cr*",)))), other, RITA).items[0].decision
    assert decision is not None
    assert decision.tool == "credit"


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({}, StaleDecision),
        ({"revision": 1}, StaleDecision),
        ({"revision": 3}, EarlyDecision),
        ({"digest": "another"}, StaleDecision),
        ({"revision": 2, "digest": "another"}, StaleDecision),
    ],
)
def test_who_decides_says_which_revision_was_seen(named: dict[str, Any], error: type[SignoffError]) -> None:
    amended = after(a_review(), edit(600), RITA)
    with pytest.raises(error) as refused:
        judge(amended, {**APPROVE, **named}, DORA)
    if error is StaleDecision:
        assert refused.value.details["changed"]["revision"] == 2
        assert refused.value.details["changed"]["amended_by"] == "rita"


def test_the_same_edit_again_is_the_stored_answer_although_it_waits_for_others() -> None:
    amended = after(a_review(), edit(600), RITA)
    assert judge(amended, edit(600), RITA) == amended.items[0].earlier[0]


# --- who may decide it now --------------------------------------------------------------------------------------


def test_the_ladder_adds_reviewers_or_takes_the_place_of_the_earlier_ones() -> None:
    added = a_review(an_item(escalated_to=("directors",)))
    assert after(added, APPROVE, RITA).items[0].decision
    assert after(added, APPROVE, DORA).items[0].decision
    replaced = a_review(an_item(escalated_to=("directors",), replaced=True))
    assert after(replaced, APPROVE, DORA).items[0].decision
    with pytest.raises(NotAReviewer):
        judge(replaced, APPROVE, RITA)


def test_whom_it_is_assigned_to_decides_and_must_still_be_a_reviewer() -> None:
    assigned = a_review(an_item(assigned_to=("@ravi", "@dora")))
    assert after(assigned, APPROVE, RAVI).items[0].decision
    for who in (RITA, DORA):
        with pytest.raises(NotAReviewer):
            judge(assigned, APPROVE, who)


def test_a_claim_keeps_others_away_until_it_ends() -> None:
    claimed = replace(a_review(), claimed_by="rita", claimed_until=NOW + timedelta(seconds=1))
    with pytest.raises(ReviewClaimed):
        judge(claimed, APPROVE, RAVI)
    assert after(claimed, APPROVE, RITA).items[0].decision
    assert after(replace(claimed, claimed_until=datetime(2026, 5, 1, 12, tzinfo=UTC)), APPROVE, RAVI).items[0].decision


def test_hidden_values_that_an_edit_leaves_masked_stay_as_they_are() -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}, "iban": {"type": "string"}}}
    terms = ReviewTerms(hidden=("iban",))
    item = an_item(args={"amount": 30, "iban": "DE1"}, terms=terms, args_schema=schema)
    decision = after(a_review(item), edit(20, iban="[hidden]"), RITA).items[0].decision
    assert decision is not None
    assert decision.args == {"amount": 20, "iban": "DE1"}


def test_no_hidden_value_is_carried_into_a_call_of_another_tool() -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}, "iban": {"type": "string"}}}
    terms = ReviewTerms(hidden=("iban",), tool_changes=("credit",))
    review_ = a_review(an_item(args={"amount": 30, "iban": "DE1"}, terms=terms, args_schema=schema))
    with pytest.raises(EditOutsideSchema):
        judge(review_, edit(20, name="credit", iban="[hidden]"), RITA)


def test_what_a_rule_hides_is_shown_to_nobody_without_the_right() -> None:
    terms = ReviewTerms(hidden=("iban",))
    readable = an_item(args={"amount": 30, "iban": "DE1"}, terms=terms)
    unreadable = an_item(1, args=None, unreadable_args='{"iban": "DE1"', terms=terms)
    amended = replace(readable, proposed=Proposal("refund", {"iban": "DE1"}, "d", "rita"), revision=2)
    for item in (readable, unreadable, amended, with_settled(a_review(readable), [settled_by(readable)]).items[0]):
        view = review_view(a_review(item), agent="desk", deadline_at=None)
        assert "DE1" not in str(view)
        assert item.digest not in str(view)
        whole = str(review_view(a_review(item), agent="desk", deadline_at=None, reveal=True))
        assert "DE1" in whole
        assert item.digest in whole


def settled_by(item: Item) -> Settled:
    settled = judge(a_review(item), APPROVE, RITA)
    assert isinstance(settled, Settled)
    return settled
