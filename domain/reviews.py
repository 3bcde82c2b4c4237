"""Reviews: a request for a person's decision on the calls of one pause, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from signoff.domain.authority import Authority
from signoff.domain.decisions import NextStep
from signoff.domain.policy import DecisionType
from signoff.domain.review_terms import ReviewTerms


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
    """One reviewer's decision on one item, with the call as it would be allowed by it.

    `revision` is the one that was decided on. An edit that does not count was made by somebody who may not allow the
    amended call.
    """

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
    tool: str = ""
    edits: int = 0
    revision: int = 1
    on_behalf_of: str | None = None
    counts: bool = True

    @property
    def allows(self) -> bool:
        return self.type in (DecisionType.approve, DecisionType.edit)

    @property
    def authority(self) -> Authority:
        return Authority(self.reviewer, self.on_behalf_of)

    def brief(self) -> dict[str, Any]:
        """The decision as a conflict names it."""
        when = self.decided_at.isoformat() if self.decided_at else None
        told = {"item_id": str(self.item_id), "type": str(self.type), "reviewer": self.reviewer, "decided_at": when}
        return told if self.on_behalf_of is None else {**told, "on_behalf_of": self.on_behalf_of}


@dataclass(frozen=True, slots=True)
class Item:
    """One tool call inside a review, in its current revision. Either `args`, or `unreadable_args` as they were written.

    `asked_operation_id` is the call's as the agent asked; `operation_id` moves with each amendment. `decision` ended
    the item; `earlier` are others' decisions on it, of any revision.
    """

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
    earlier: tuple[Decision, ...] = ()
    terms: ReviewTerms = field(default_factory=ReviewTerms)
    shown: Mapping[str, Any] | None = None
    revision: int = 1
    asked_operation_id: str = ""
    proposed: Proposal | None = None
    escalated_to: tuple[str, ...] = ()
    replaced: bool = False
    assigned_to: tuple[str, ...] = ()
    rung: int = 0
    next_rung_at: datetime | None = None

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.earlier if self.decision is None else (*self.earlier, self.decision)

    @property
    def may_decide(self) -> tuple[str, ...]:
        """The reviewers as the ladder has left them: groups, and people written `@name`."""
        own = () if self.replaced else self.reviewers
        return tuple(dict.fromkeys((*own, *self.escalated_to)))

    def is_late(self, now: datetime) -> bool:
        """True once its deadline has passed, whoever has noticed it yet."""
        return self.deadline_at is not None and now >= self.deadline_at

    @property
    def voices(self) -> tuple[Decision, ...]:
        """The decisions that allow the call as it stands now."""
        return tuple(one for one in self.decisions if one.allows and one.counts and self._is_current(one))

    def _is_current(self, decision: Decision) -> bool:
        return (decision.operation_id, decision.digest) == (self.operation_id, self.digest)

    @property
    def spoken(self) -> frozenset[str]:
        """Everybody who has a part in allowing the call as it stands now."""
        return frozenset().union(*(one.authority.people for one in self.voices))


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the agent asked for, where the item has been amended since, and who amended it last."""

    tool: str
    args: Mapping[str, Any] | None
    digest: str
    amended_by: str


@dataclass(frozen=True, slots=True)
class Revision:
    """A call as an edit makes it, where somebody else has to allow it, or it has more to hide."""

    item_id: UUID
    revision: int
    proposed_by: str
    operation_id: str
    edits: int
    tool: str
    args: Mapping[str, Any]
    digest: str
    description: str
    rule: str
    reason: str
    policy_digest: str
    allowed_decisions: tuple[DecisionType, ...]
    reviewers: tuple[str, ...]
    args_schema: Mapping[str, Any] | None
    terms: ReviewTerms
    shown: Mapping[str, Any] | None
    approval_valid_for_seconds: float | None


ALONE = "alone:"
"""How the interrupt id of a review begins that no run waits for: an operator has asked for it."""


@dataclass(frozen=True, slots=True)
class Review:
    """A review with its items, in the order of the calls."""

    id: UUID
    job_id: UUID
    thread_id: str
    interrupt_id: str
    status: ReviewStatus
    items: tuple[Item, ...]
    claimed_by: str | None = None
    claimed_until: datetime | None = None

    @property
    def is_alone(self) -> bool:
        """True if no run waits for it: what it allows runs by itself, and the job is not touched."""
        return self.interrupt_id.startswith(ALONE)

    @property
    def reviewers(self) -> frozenset[str]:
        """All who may decide some of it: groups, and people written `@name`."""
        return frozenset(name for item in self.items for name in item.may_decide)


@dataclass(frozen=True, slots=True)
class Settled:
    """A new decision on an item, and whether it ends it.

    With the revision that an edit makes, where the call goes on to somebody else, or has more to hide than the item.
    """

    item: Item
    decision: Decision
    ends: bool
    revision: Revision | None = None


def completes(review: Review, new: Sequence[Settled]) -> bool:
    """True if no item stays open once `new` is stored."""
    ended = {settled.item.id for settled in new if settled.ends}
    return all(item.status is not ItemStatus.open or item.id in ended for item in review.items)


def with_settled(review: Review, new: Sequence[Settled]) -> Review:
    """The review with its ended items as they are once `new` is stored."""
    ended = {settled.item.id: settled for settled in new if settled.ends}
    items = tuple(_ended(item, ended[item.id]) if item.id in ended else item for item in review.items)
    return replace(review, items=items)


def _ended(item: Item, settled: Settled) -> Item:
    terms = item.terms if settled.revision is None else settled.revision.terms
    return replace(item, decision=settled.decision, status=ItemStatus.decided, terms=terms)
