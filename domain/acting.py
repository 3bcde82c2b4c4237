"""A review under lock, and somebody who acts on it: what each act beside deciding needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, Right, may_read_job, require_right
from signoff.domain.deciders import authority_on, require_unclaimed
from signoff.domain.errors import AlreadyDecided, ReviewExpired, ReviewNotFound
from signoff.domain.events import EventType, NewEvent
from signoff.domain.judging import CLOSED
from signoff.domain.ports import LockedReview, NewAct, Store, Transaction
from signoff.domain.registered import Registered
from signoff.domain.reviews import Item, ItemStatus, Review, ReviewStatus


class ActKind(StrEnum):
    """What is done with a review beside deciding it; each is a row, and an event."""

    claimed = "claimed"
    released = "released"
    reassigned = "reassigned"
    commented = "commented"
    cancelled = "cancelled"
    reminded = "reminded"
    escalated = "escalated"

    @property
    def event(self) -> EventType:
        return EventType(f"signoff.review.{self}.v1")


@dataclass(frozen=True, slots=True)
class Acting:
    """Somebody at a locked review, which they may see."""

    tx: Transaction
    locked: LockedReview
    who: Principal

    @property
    def review(self) -> Review:
        return self.locked.review

    def open_items(self) -> Sequence[Item]:
        """Those that can still be decided; there is at least one.

        Raises: AlreadyDecided, ReviewExpired, ReviewCancelled, ReviewSuperseded.
        """
        require_pending(self.review)
        found = [item for item in self.review.items if is_open(item, self.locked)]
        if not found:
            raise ReviewExpired("the deadline has passed; nothing can be decided any more")
        return found

    def require_unclaimed(self) -> None:
        """Raises ReviewClaimed while somebody else has claimed the review."""
        require_unclaimed(self.review, self.who, self.locked.now)

    @property
    def operates(self) -> bool:
        return Right.operate in self.who.rights and not self.who.revoked

    def require_operator(self) -> None:
        """Raises RightMissing."""
        require_right(self.who, Right.operate)

    async def note(self, kind: ActKind, message: str | None = None, **facts: Any) -> None:
        """Keeps the act, without an event."""
        act = NewAct(str(kind), self.who.name, message, facts or None)
        await self.tx.acts.add(self.review.id, act)

    async def record(self, kind: ActKind, message: str | None = None, **facts: Any) -> None:
        """Keeps the act, and tells of it."""
        await self.note(kind, message, **facts)
        told = facts if message is None else {**facts, "message": message}
        await self.tx.events.append(act_event(self.review, kind, self.who.name, **told))


@dataclass(frozen=True, slots=True)
class Deciders:
    """Who may decide an item, apart from claims: by rights, groups, grants, and by who has submitted the job."""

    registered: Registered
    locked: LockedReview

    @classmethod
    async def of(cls, acting: Acting, environment: str) -> Deciders:
        job = acting.locked.job
        tools = await acting.tx.agents.tools(job.agent) or {}
        return cls(Registered(job.agent, job.facts(), environment, tools=tools), acting.locked)

    def require(self, who: Principal, item: Item, *, assigned: bool = True) -> None:
        """Raises NotAReviewer, SubmitterMayNotDecide, BeyondAuthority; where `assigned`, also if others are to."""
        authority_on(item, who, self.registered, self.locked.now, assigned=assigned)


@asynccontextmanager
async def acting_on(store: Store, review_id: UUID, who: Principal) -> AsyncIterator[Acting]:
    """Locks the review for one transaction. Raises ReviewNotFound, also for who may not see it."""
    async with store.begin() as tx:
        locked = await tx.reviews.lock(review_id)
        if locked is None or not may_read_job(who, locked.job.submitted_by, await tx.acts.seen_by(review_id)):
            raise ReviewNotFound(f"there is no review {review_id} that you may read")
        yield Acting(tx, locked, who)


def require_pending(review: Review) -> None:
    """Raises AlreadyDecided, ReviewExpired, ReviewCancelled, ReviewSuperseded."""
    if review.status is ReviewStatus.pending:
        return
    if closed := CLOSED.get(review.status):
        raise closed(f"the review is {review.status}", status=str(review.status))
    decisions = [item.decision for item in review.items if item.decision is not None]
    last = max(decisions, key=lambda decision: (str(decision.decided_at), str(decision.id)))
    raise AlreadyDecided(f"the review is decided, at last by {last.reviewer}", winner=last.brief())


def is_open(item: Item, locked: LockedReview) -> bool:
    """True if the item can still be decided: an item whose deadline has passed can not, whoever has noticed it yet."""
    return item.status is ItemStatus.open and not item.is_late(locked.now)


def act_event(review: Review, kind: ActKind, actor: str, **facts: Any) -> NewEvent:
    data = {"review_id": str(review.id), "job_id": str(review.job_id), "thread_id": review.thread_id, **facts}
    return NewEvent(kind.event, f"reviews/{review.id}", actor, data, review.job_id)
