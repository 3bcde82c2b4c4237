"""Reviews: a request for a person's decision on the calls of one pause, item by item.

`judge_answers` is the whole of promise 3: what it returns may be stored, what it raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, require_reviewer
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.decisions import Answer, NextStep
from signoff.domain.errors import (
    AlreadyDecided,
    AmbiguousItem,
    DecisionNotAllowed,
    DuplicateDecision,
    EditChangesTool,
    EditDenied,
    ReviewCancelled,
    ReviewExpired,
    ReviewSuperseded,
    UnknownItem,
    WrongDecisionCount,
)
from signoff.domain.policy import DecisionType, Judgement, Verdict
from signoff.domain.schemas import check_edit


class ReviewStatus(StrEnum):
    pending = "pending"
    decided = "decided"
    expired = "expired"
    cancelled = "cancelled"
    superseded = "superseded"


class ItemStatus(StrEnum):
    open = "open"
    decided = "decided"
    expired = "expired"
    cancelled = "cancelled"
    superseded = "superseded"


REVIEW_TRANSITIONS: Mapping[ReviewStatus, frozenset[ReviewStatus]] = {
    status: frozenset(ReviewStatus) - {ReviewStatus.pending} if status is ReviewStatus.pending else frozenset()
    for status in ReviewStatus
}
ITEM_TRANSITIONS: Mapping[ItemStatus, frozenset[ItemStatus]] = {
    status: frozenset(ItemStatus) - {ItemStatus.open} if status is ItemStatus.open else frozenset()
    for status in ItemStatus
}


@dataclass(frozen=True, slots=True)
class Decision:
    """One reviewer's decision on one item, with the call as finally allowed."""

    id: UUID
    item_id: UUID
    type: DecisionType
    reviewer: str
    operation_id: str
    digest: str
    args: Mapping[str, Any] | None
    message: str | None
    next_step: NextStep | None
    decided_at: datetime | None = None

    @property
    def allows(self) -> bool:
        return self.type in (DecisionType.approve, DecisionType.edit)

    def same_as(self, other: Decision) -> bool:
        """True if the same reviewer says the same again."""
        mine = (self.type, self.reviewer, self.digest, self.message, self.next_step)
        return mine == (other.type, other.reviewer, other.digest, other.message, other.next_step)

    def brief(self) -> dict[str, Any]:
        """The winner, as a conflict names it."""
        when = self.decided_at.isoformat() if self.decided_at else None
        return {"item_id": str(self.item_id), "type": str(self.type), "reviewer": self.reviewer, "decided_at": when}


@dataclass(frozen=True, slots=True)
class Item:
    """One tool call inside a review. Either `args`, or `unreadable_args` as the model wrote them."""

    id: UUID
    ordinal: int
    status: ItemStatus
    operation_id: str
    message_id: str
    call_ordinal: int
    edits: int
    tool_call_id: str
    tool: str
    args: Mapping[str, Any] | None
    unreadable_args: str | None
    digest: str
    description: str
    rule: str
    reason: str
    allowed_decisions: tuple[DecisionType, ...]
    reviewers: tuple[str, ...]
    args_schema: Mapping[str, Any] | None
    deadline_at: datetime | None
    approval_valid_for_seconds: float | None
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A review with its items, in the order of the calls."""

    id: UUID
    job_id: UUID
    thread_id: str
    interrupt_id: str
    status: ReviewStatus
    items: tuple[Item, ...]


Judge = Callable[[str, Mapping[str, Any]], Judgement]
"""How the policy judges a call of this review's job now: (tool, args) -> Judgement."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a request comes to: decisions to store, and those that were stored before and are the same."""

    new: tuple[Decision, ...]
    known: tuple[Decision, ...]


CLOSED = {
    ReviewStatus.expired: ReviewExpired,
    ReviewStatus.cancelled: ReviewCancelled,
    ReviewStatus.superseded: ReviewSuperseded,
}


def judge_answers(
    review: Review,
    answers: Sequence[Answer],
    who: Principal,
    *,
    now: datetime,
    judge: Judge,
    lineage_root: str,
    new_id: Callable[[], UUID],
) -> Judged:
    """Decides whether these answers may be stored, all or none.

    Raises: the named error of the first answer that may not; see `signoff.domain.errors`. Who may decide none of the
    items learns nothing else about them.
    """
    require_reviewer(who, {group for item in review.items for group in item.reviewers})
    new: list[Decision] = []
    known: list[Decision] = []
    for item, answer in _match(review, answers):
        decision = _decision(item, answer, who, judge, lineage_root, new_id(), now)
        if item.decision is not None:
            known.append(_same_or_conflict(item.decision, decision))
        else:
            _require_open(review, item, now)
            new.append(decision)
    return Judged(tuple(new), tuple(known))


def completes(review: Review, new: Sequence[Decision]) -> bool:
    """True if no item stays open once `new` is stored."""
    decided = {decision.item_id for decision in new}
    return all(item.status is not ItemStatus.open or item.id in decided for item in review.items)


def _match(review: Review, answers: Sequence[Answer]) -> list[tuple[Item, Answer]]:
    if answers[0].by_position:
        if len(answers) != len(review.items):
            raise WrongDecisionCount(
                f"the review has {len(review.items)} items and {len(answers)} decisions came;"
                " send one for each in order, or name items by item_id",
                items=len(review.items),
                decisions=len(answers),
            )
        return list(zip(review.items, answers, strict=True))
    pairs = [(_find(review, answer), answer) for answer in answers]
    if len({item.id for item, _ in pairs}) != len(pairs):
        raise DuplicateDecision("one item is decided twice in this request")
    return pairs


def _find(review: Review, answer: Answer) -> Item:
    found = [item for item in review.items if _is_meant(item, answer)]
    if not found:
        named = answer.item_id or answer.tool_call_id
        known = [{"item_id": str(item.id), "tool_call_id": item.tool_call_id} for item in review.items]
        raise UnknownItem(f"the review has no item {named}", items=known)
    if len(found) > 1:
        raise AmbiguousItem(f"{len(found)} items have the tool call id {answer.tool_call_id!r}: use item_id")
    return found[0]


def _is_meant(item: Item, answer: Answer) -> bool:
    by_id = answer.item_id is None or item.id == answer.item_id
    by_call = answer.tool_call_id is None or item.tool_call_id == answer.tool_call_id
    return by_id and by_call


def _same_or_conflict(stored: Decision, sent: Decision) -> Decision:
    if not stored.same_as(sent):
        raise AlreadyDecided(f"{stored.reviewer} has decided this item already: {stored.type}", winner=stored.brief())
    return stored


def _require_open(review: Review, item: Item, now: datetime) -> None:
    if item.status is ItemStatus.expired or (item.deadline_at is not None and now >= item.deadline_at):
        raise ReviewExpired(f"the deadline of {item.tool} has passed", deadline_at=str(item.deadline_at))
    if closed := CLOSED.get(review.status):
        raise closed(f"the review is {review.status}; nothing can be decided any more", status=str(review.status))


def _decision(
    item: Item, answer: Answer, who: Principal, judge: Judge, lineage_root: str, new_id: UUID, now: datetime
) -> Decision:
    require_reviewer(who, item.reviewers)
    if answer.type not in item.allowed_decisions:
        words = ", ".join(item.allowed_decisions)
        raise DecisionNotAllowed(
            f"'{answer.type}' is not open for {item.tool}; allowed: {words}", allowed=list(item.allowed_decisions)
        )
    edited = answer.type is DecisionType.edit
    args = _edited_args(item, answer, who, judge) if edited else item.args
    edits = item.edits + 1 if edited else item.edits
    return Decision(
        id=new_id,
        item_id=item.id,
        type=answer.type,
        reviewer=who.name,
        operation_id=operation_id(lineage_root, item.message_id, item.call_ordinal, edits),
        digest=call_digest(item.tool, dict(args)) if edited and args is not None else item.digest,
        args=args,
        message=answer.message,
        next_step=_next_step(answer),
        decided_at=now,
    )


def _edited_args(item: Item, answer: Answer, who: Principal, judge: Judge) -> Mapping[str, Any]:
    assert answer.edited_args is not None
    if answer.edited_name != item.tool:
        raise EditChangesTool(f"the edit names {answer.edited_name!r}; this item is a call of {item.tool!r}")
    if item.decision is not None:
        # It was judged when it was stored; the same again gets the stored answer, whatever the policy says by now.
        return answer.edited_args
    check_edit(item.tool, answer.edited_args, item.args_schema)
    judgement = judge(item.tool, answer.edited_args)
    if judgement.verdict is Verdict.deny:
        raise EditDenied(f"the policy denies the edited call: {judgement.reason}", rule=judgement.rule)
    if judgement.verdict is Verdict.review:
        require_reviewer(who, judgement.reviewers)
    return answer.edited_args


def _next_step(answer: Answer) -> NextStep | None:
    if answer.type is not DecisionType.reject:
        return None
    return answer.then or (NextStep.revise if answer.message else NextStep.stop)
