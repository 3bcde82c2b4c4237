"""What may be stored as a decision: promise 3, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.decisions import NextStep, parse_answers
from signoff.domain.errors import (
    AlreadyDecided,
    AmbiguousItem,
    DecisionNotAllowed,
    DuplicateDecision,
    EditChangesTool,
    EditDenied,
    EditOutsideSchema,
    NotAReviewer,
    ReviewCancelled,
    ReviewExpired,
    ReviewSuperseded,
    SignoffError,
    UnknownItem,
    WrongDecisionCount,
)
from signoff.domain.judging import Judged, judge_answers
from signoff.domain.policy import DecisionType, Policy, deny, review
from signoff.domain.registered import Registered
from signoff.domain.reviews import Decision, Item, ItemStatus, Review, ReviewStatus, completes, with_settled

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
RITA = Principal("rita", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.review}))
RAVI = replace(RITA, name="ravi")
SAM = replace(RITA, name="sam", groups=frozenset({"legal"}))
POLICY = Policy(
    [
        deny("refund", when="args.amount > 1000", reviewers=["finance"]),
        review("refund", when="args.amount > 500", reviewers=["directors"]),
        review("refund", reviewers=["finance"]),
    ]
)
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


def an_item(ordinal: int = 0, **changes: Any) -> Item:
    args = {"amount": 30 + ordinal}
    item = Item(
        id=uuid4(),
        ordinal=ordinal,
        status=ItemStatus.open,
        operation_id=operation_id("root", "m-1", ordinal, 0),
        message_id="m-1",
        call_ordinal=ordinal,
        edits=0,
        tool_call_id=f"call-{ordinal}",
        tool="refund",
        args=args,
        unreadable_args=None,
        digest=call_digest("refund", args),
        description="",
        rule="refunds",
        reason="",
        allowed_decisions=tuple(DecisionType),
        reviewers=("finance",),
        args_schema=SCHEMA,
        deadline_at=None,
        approval_valid_for_seconds=None,
    )
    return replace(item, **changes)


def a_review(*items: Item, status: ReviewStatus = ReviewStatus.pending) -> Review:
    return Review(uuid4(), uuid4(), "thread", "interrupt", status, items or (an_item(),))


def decide(review_: Review, *raw: Mapping[str, Any], who: Principal = RITA, policy: Policy = POLICY) -> Judged:
    return judge_answers(
        review_,
        parse_answers({"decisions": list(raw)}),
        who,
        now=NOW,
        registered=Registered("desk", {"submitted_by": "shop"}, "test", policy, {}),
        lineage_root="root",
        new_id=uuid4,
    )


def edit(amount: Any, name: str = "refund", **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": {"amount": amount, **args}}}


def decided(review_: Review, *raw: Mapping[str, Any], who: Principal = RITA) -> Review:
    return with_settled(review_, decide(review_, *raw, who=who).new)


def only(judged: Judged) -> Decision:
    (settled,) = judged.new
    return settled.decision


def test_an_approval_covers_the_call_as_it_was() -> None:
    review_ = a_review()
    decision = only(decide(review_, {"type": "approve"}))
    item = review_.items[0]
    assert (decision.operation_id, decision.digest, decision.args) == (item.operation_id, item.digest, item.args)
    assert (decision.reviewer, decision.allows, decision.decided_at) == ("rita", True, NOW)


def test_an_edit_is_another_operation_with_its_own_digest() -> None:
    decision = only(decide(a_review(), edit(20)))
    assert decision.operation_id == operation_id("root", "m-1", 0, 1)
    assert decision.digest == call_digest("refund", {"amount": 20})
    assert decision.args == {"amount": 20}


@pytest.mark.parametrize(
    ("raw", "then"),
    [
        ({"type": "reject"}, NextStep.stop),
        ({"type": "reject", "message": "use the other order"}, NextStep.revise),
        ({"type": "reject", "message": "no", "then": "ask"}, NextStep.ask),
    ],
)
def test_a_rejection_says_what_the_agent_may_do(raw: dict[str, Any], then: NextStep) -> None:
    decision = only(decide(a_review(), raw))
    assert (decision.next_step, decision.allows) == (then, False)


def test_items_are_found_by_position_item_id_and_tool_call_id() -> None:
    review_ = a_review(an_item(0), an_item(1))
    first, second = review_.items
    approve, reject = {"type": "approve"}, {"type": "reject"}
    assert [one.item.id for one in decide(review_, approve, reject).new] == [first.id, second.id]
    assert [one.item.id for one in decide(review_, {**reject, "item_id": str(second.id)}).new] == [second.id]
    assert [one.item.id for one in decide(review_, {**reject, "tool_call_id": "call-1"}).new] == [second.id]


def test_a_review_is_complete_when_no_item_stays_open() -> None:
    review_ = a_review(an_item(0), an_item(1))
    assert not completes(review_, decide(review_, {"type": "approve", "tool_call_id": "call-1"}).new)
    assert completes(review_, decide(review_, {"type": "approve"}, {"type": "approve"}).new)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ([{"type": "approve"}] * 2, WrongDecisionCount),
        ([{"type": "approve", "tool_call_id": "nope"}], UnknownItem),
        ([{"type": "approve", "item_id": str(uuid4())}], UnknownItem),
        ([{"type": "approve", "tool_call_id": "call-0"}] * 2, DuplicateDecision),
        ([edit(20, name="send_email")], EditChangesTool),
        ([edit("many")], EditOutsideSchema),
        ([edit(20, currency="EUR")], EditOutsideSchema),
        ([edit(1001)], EditDenied),
    ],
)
def test_each_refusal_has_its_own_error(raw: list[dict[str, Any]], error: type[SignoffError]) -> None:
    with pytest.raises(error) as refused:
        decide(a_review(), *raw)
    assert type(refused.value) is error


def test_a_decision_that_the_rule_does_not_allow_is_refused_with_what_it_allows() -> None:
    review_ = a_review(an_item(allowed_decisions=(DecisionType.approve, DecisionType.reject)))
    with pytest.raises(DecisionNotAllowed) as refused:
        decide(review_, edit(20))
    assert refused.value.details["allowed"] == ["approve", "reject"]


def test_a_tool_call_id_of_two_items_is_ambiguous_and_the_item_id_is_not() -> None:
    review_ = a_review(an_item(0, tool_call_id="same"), an_item(1, tool_call_id="same"))
    with pytest.raises(AmbiguousItem):
        decide(review_, {"type": "approve", "tool_call_id": "same"})
    assert decide(review_, {"type": "approve", "item_id": str(review_.items[1].id), "tool_call_id": "same"}).new


@pytest.mark.parametrize(
    "who",
    [
        SAM,
        replace(RITA, revoked=True),
        replace(RITA, rights=frozenset({Right.operate, Right.submit})),
        replace(RITA, kind=PrincipalKind.service),
    ],
)
def test_who_may_decide_nothing_learns_nothing_else(who: Principal) -> None:
    for raw in ([{"type": "approve"}], [{"type": "approve"}] * 3, [{"type": "approve", "tool_call_id": "nope"}]):
        with pytest.raises(NotAReviewer) as refused:
            decide(a_review(), *raw, who=who)
        assert refused.value.details == {"reviewers": ["finance"]}


def test_each_item_needs_a_reviewer_of_its_own() -> None:
    review_ = a_review(an_item(0), an_item(1, reviewers=("legal",)))
    with pytest.raises(NotAReviewer):
        decide(review_, {"type": "approve"}, {"type": "approve"})
    assert decide(review_, {"type": "approve", "tool_call_id": "call-1"}, who=SAM).new


def test_the_same_again_is_the_stored_decision_and_another_names_the_winner() -> None:
    stored = decided(a_review(), edit(20))
    winner = stored.items[0].decision
    assert winner is not None
    judged = decide(stored, edit(20))
    assert (judged.new, judged.known) == ((), (winner,))
    for raw, who in ((edit(21), RITA), ({"type": "approve"}, RITA), (edit(20), RAVI)):
        with pytest.raises(AlreadyDecided) as refused:
            decide(stored, raw, who=who)
        assert refused.value.details["winner"] == winner.brief()


def test_the_same_again_is_answered_although_the_policy_would_deny_it_by_now() -> None:
    stored = decided(a_review(), edit(20))
    denying = Policy([deny("refund")])
    assert decide(stored, edit(20), policy=denying).known
    with pytest.raises(EditDenied):
        decide(a_review(), edit(20), policy=denying)


def test_one_bad_answer_refuses_all() -> None:
    with pytest.raises(EditOutsideSchema):
        decide(a_review(an_item(0), an_item(1)), {"type": "approve"}, edit("many"))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (ReviewStatus.expired, ReviewExpired),
        (ReviewStatus.cancelled, ReviewCancelled),
        (ReviewStatus.superseded, ReviewSuperseded),
    ],
)
def test_a_closed_review_is_decided_no_more(status: ReviewStatus, error: type[SignoffError]) -> None:
    with pytest.raises(error):
        decide(a_review(an_item(status=ItemStatus(status.value)), status=status), {"type": "approve"})


@pytest.mark.parametrize(("left", "open_"), [(timedelta(microseconds=1), True), (timedelta(), False)])
def test_a_deadline_counts_before_anybody_has_expired_the_item(left: timedelta, open_: bool) -> None:
    review_ = a_review(an_item(deadline_at=NOW + left))
    if open_:
        assert decide(review_, {"type": "approve"}).new
    else:
        with pytest.raises(ReviewExpired):
            decide(review_, {"type": "approve"})


def test_unreadable_arguments_can_be_rejected_and_answered_only() -> None:
    item = an_item(args=None, unreadable_args="{amo", allowed_decisions=(DecisionType.reject, DecisionType.respond))
    assert decide(a_review(item), {"type": "respond", "message": "ask again"}).new[0].decision.args is None
    with pytest.raises(DecisionNotAllowed):
        decide(a_review(item), {"type": "approve"})
