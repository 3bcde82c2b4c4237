"""Deciding a review, and what happens when its last item is settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.authority import Principal
from signoff.domain.decisions import Answer
from signoff.domain.errors import CarriedOutElsewhere, ReviewNotFound
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import JobStatus
from signoff.domain.judging import judge_answers
from signoff.domain.origins import origin_of
from signoff.domain.policy import DecisionType
from signoff.domain.ports import Hints, LockedReview, Store, Transaction
from signoff.domain.registered import Registered
from signoff.domain.reviews import Decision, Item, Review, ReviewStatus, Settled, completes, with_settled


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a signed request came from; its id counts once."""

    endpoint: str
    id: str
    body_digest: str


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions as stored, and the review's status with them."""

    review_id: UUID
    job_id: UUID
    status: ReviewStatus
    decisions: tuple[Decision, ...]
    repeated: bool


async def decide_review(
    store: Store,
    hints: Hints,
    review_id: UUID,
    answers: Sequence[Answer],
    who: Principal,
    *,
    door: str,
    environment: str,
    delivery: Delivery | None = None,
) -> Decided:
    """Stores decisions, all of the request or none; when the review is complete, its job goes on.

    Raises: ReviewNotFound, and every error of `signoff.domain.judging.judge_answers`. None changes anything.
    """
    async with store.begin() as tx:
        if delivery is not None:
            await tx.deliveries.remember(delivery.endpoint, delivery.id, delivery.body_digest)
        locked = await tx.reviews.lock(review_id)
        if locked is None:
            raise ReviewNotFound(f"there is no review {review_id}")
        judged = judge_answers(
            locked.review,
            answers,
            who,
            now=locked.now,
            registered=await _registered(tx, locked, answers, who, environment),
            lineage_root=locked.lineage_root,
            new_id=uuid4,
        )
        status = await _store(tx, locked, judged.new, who.name, door)
    if judged.new and status is not ReviewStatus.pending:
        _offer(hints, locked, judged.new)
    decisions = (*judged.known, *(settled.decision for settled in judged.new))
    return Decided(review_id, locked.job.id, status, decisions, repeated=not judged.new)


async def expire_review(store: Store, hints: Hints, review_id: UUID) -> bool:
    """Expires the items whose deadline has passed; what was approved still runs. True if anything changed."""
    async with store.begin() as tx:
        locked = await tx.reviews.lock(review_id)
        if locked is None or locked.review.status is not ReviewStatus.pending:
            return False
        if not await tx.reviews.expire_items(review_id):
            return False
        locked = await tx.reviews.lock(review_id)
        assert locked is not None
        if not completes(locked.review, ()):
            return True
        await complete_review(tx, locked, (), ReviewStatus.expired, "signoff")
    hints.offer(locked.job.agent, locked.job.id)
    return True


def _offer(hints: Hints, locked: LockedReview, new: Sequence[Settled]) -> None:
    if not locked.review.is_alone:
        hints.offer(locked.job.agent, locked.job.id)
    for settled in new if locked.review.is_alone else ():
        hints.offer_effect(locked.job.agent, settled.decision.operation_id)


async def _registered(
    tx: Transaction, locked: LockedReview, answers: Sequence[Answer], who: Principal, environment: str
) -> Registered:
    """What the answers are judged by; policy and tools are read only where something depends on them."""
    agent, facts = locked.job.agent, locked.job.facts()
    edits = any(answer.type is DecisionType.edit for answer in answers)
    if not (edits or who.limited or who.delegations):
        return Registered(agent, facts, environment)
    policy = await tx.agents.policy(agent)
    return Registered(agent, facts, environment, policy, await tx.agents.tools(agent) or {})


async def _store(tx: Transaction, locked: LockedReview, new: Sequence[Settled], actor: str, door: str) -> ReviewStatus:
    if not new:
        return locked.review.status
    await tx.reviews.decide(new, door)
    if not completes(locked.review, new):
        if locked.review.claimed_by is not None and not all(settled.ends for settled in new):
            # The next voice is somebody else's: a claim may not keep them out.
            await tx.acts.end_claim(locked.review.id)
        await tx.events.append(*(_partial_event(locked.review, settled) for settled in new))
        return ReviewStatus.pending
    expired = any(item.status == "expired" for item in locked.review.items)
    status = ReviewStatus.expired if expired else ReviewStatus.decided
    await complete_review(tx, locked, new, status, actor)
    return status


async def complete_review(
    tx: Transaction, locked: LockedReview, new: Sequence[Settled], status: ReviewStatus, actor: str, **facts: Any
) -> None:
    """Closes a review none of whose items is open once `new` is stored; what was approved is planned, the job goes on
    if it waits for the review.

    `facts` go into the event.
    """
    review = with_settled(locked.review, new)
    await tx.reviews.close(review.id, status)
    allowed = [item for item in review.items if item.decision is not None and item.decision.allows]
    decisions = [item.decision for item in allowed if item.decision is not None]
    # Only there another job may have made another form of the same call.
    root = locked.lineage_root if locked.has_forks else None
    elsewhere = await tx.effects.plan(locked.job, allowed, decisions, origin_of(review), root)
    if elsewhere and new:
        raise CarriedOutElsewhere(
            "the call is carried out in another form already, in a fork or where it was forked from"
        )
    await _withdraw(tx, [item for item in review.items if item not in allowed], actor)
    event = _event(review, status, actor, facts)
    if review.is_alone:
        await tx.events.append(event)
        return
    if locked.job.status is JobStatus.awaiting_review:
        await tx.jobs.move(review.job_id, JobStatus.queued, event=event)
        return
    await tx.events.append(event)
    if locked.job.status is JobStatus.queued:
        # It waits for the time of another call's retry; the decision does not.
        await tx.jobs.hurry(review.job_id)


def _event(review: Review, status: ReviewStatus, actor: str, facts: Mapping[str, Any]) -> NewEvent:
    data = {
        "review_id": str(review.id),
        "job_id": str(review.job_id),
        "thread_id": review.thread_id,
        "status": str(status),
        "items": [_item_outcome(item) for item in review.items],
        **facts,
    }
    return NewEvent(EventType(f"signoff.review.{status}.v1"), f"reviews/{review.id}", actor, data, review.job_id)


async def _withdraw(tx: Transaction, items: Sequence[Item], actor: str) -> None:
    """What was allowed once, and went back to review, does not run any more."""
    for item in items:
        message = item.decision.message if item.decision else None
        why = f"{item.decision.type} by {item.decision.reviewer}" if item.decision else f"the review {item.status}"
        reason = f"{why}: {message}" if message else why
        await tx.effects.revoke_unsent([item.operation_id], actor, reason)


def _partial_event(review: Review, settled: Settled) -> NewEvent:
    """A decision that did not end its review: of one item, one approval of several, or an edit for others to allow."""
    item, decision, revision = settled.item, settled.decision, settled.revision
    needed = item.terms.approvals if revision is None else revision.terms.approvals
    data = {
        "review_id": str(review.id),
        "job_id": str(review.job_id),
        "thread_id": review.thread_id,
        **decision.brief(),
        "tool_call_id": item.tool_call_id,
        "tool": decision.tool,
        "revision": item.revision if revision is None else revision.revision,
        "approvals": {"needed": needed, "given": len(item.voices) + 1 if revision is None else int(decision.counts)},
    }
    kind = EventType.item_decided if settled.ends else EventType.review_approved
    kind = EventType.review_amended if revision is not None and not settled.ends else kind
    return NewEvent(kind, f"reviews/{review.id}", decision.reviewer, data, review.job_id)


def _item_outcome(item: Item) -> dict[str, Any]:
    decision = item.decision.brief() if item.decision else {"type": None, "reviewer": None}
    return {**decision, "item_id": str(item.id), "tool_call_id": item.tool_call_id, "tool": item.tool}
