"""Deciding a review, and what happens when its last item is settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.authority import Principal
from signoff.domain.decisions import Answer
from signoff.domain.errors import AgentNotFound, ReviewNotFound
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import JobStatus
from signoff.domain.policy import DecisionType, Judgement
from signoff.domain.ports import Hints, LockedReview, Store, Transaction
from signoff.domain.reviews import Decision, Item, Judge, Review, ReviewStatus, completes, judge_answers


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

    Raises: ReviewNotFound, and every error of `signoff.domain.reviews.judge_answers`. None changes anything.
    """
    async with store.begin() as tx:
        if delivery is not None:
            await tx.deliveries.remember(delivery.endpoint, delivery.id, delivery.body_digest)
        locked = await tx.reviews.lock(review_id)
        if locked is None:
            raise ReviewNotFound(f"there is no review {review_id}")
        judge = await _judge(tx, locked, answers, environment)
        judged = judge_answers(
            locked.review, answers, who, now=locked.now, judge=judge, lineage_root=locked.lineage_root, new_id=uuid4
        )
        status = await _store(tx, locked, judged.new, who.name, door)
    if judged.new and status is not ReviewStatus.pending:
        hints.offer(locked.job.agent, locked.job.id)
    decisions = (*judged.known, *judged.new)
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
        await _complete(tx, locked, (), ReviewStatus.expired, "signoff")
    hints.offer(locked.job.agent, locked.job.id)
    return True


async def _judge(tx: Transaction, locked: LockedReview, answers: Sequence[Answer], environment: str) -> Judge:
    if not any(answer.type is DecisionType.edit for answer in answers):
        return _never
    policy = await tx.agents.policy(locked.job.agent)
    if policy is None:
        raise AgentNotFound(f"no worker serves the agent {locked.job.agent!r}: an edit can't be judged")
    facts = locked.job.facts()

    def judge(tool: str, args: Mapping[str, Any]) -> Judgement:
        return policy.judge(tool, args, job=facts, environment=environment)

    return judge


def _never(tool: str, args: Mapping[str, Any]) -> Judgement:
    raise AssertionError("only an edit is judged")


async def _store(tx: Transaction, locked: LockedReview, new: Sequence[Decision], actor: str, door: str) -> ReviewStatus:
    if not new:
        return locked.review.status
    await tx.reviews.decide(new, door)
    if not completes(locked.review, new):
        return ReviewStatus.pending
    expired = any(item.status == "expired" for item in locked.review.items)
    status = ReviewStatus.expired if expired else ReviewStatus.decided
    await _complete(tx, locked, new, status, actor)
    return status


async def _complete(
    tx: Transaction, locked: LockedReview, new: Sequence[Decision], status: ReviewStatus, actor: str
) -> None:
    review = with_decisions(locked.review, new)
    await tx.reviews.close(review.id, status)
    allowed = [item for item in review.items if item.decision is not None and item.decision.allows]
    await tx.effects.plan(locked.job, allowed, [item.decision for item in allowed if item.decision is not None])
    event = _event(review, status, actor)
    if locked.job.status is JobStatus.awaiting_review:
        await tx.jobs.move(review.job_id, JobStatus.queued, event=event)
        return
    await tx.events.append(event)
    if locked.job.status is JobStatus.queued:
        # It waits for the time of another call's retry; the decision does not.
        await tx.jobs.hurry(review.job_id)


def _event(review: Review, status: ReviewStatus, actor: str) -> NewEvent:
    kind = EventType.review_decided if status is ReviewStatus.decided else EventType.review_expired
    data = {
        "review_id": str(review.id),
        "job_id": str(review.job_id),
        "thread_id": review.thread_id,
        "status": str(status),
        "items": [_item_outcome(item) for item in review.items],
    }
    return NewEvent(kind, f"reviews/{review.id}", actor, data, review.job_id)


def with_decisions(review: Review, new: Sequence[Decision]) -> Review:
    by_item = {decision.item_id: decision for decision in new}
    items = tuple(replace(item, decision=by_item.get(item.id, item.decision)) for item in review.items)
    return replace(review, items=items)


def _item_outcome(item: Item) -> dict[str, Any]:
    decision = item.decision.brief() if item.decision else {"type": None, "reviewer": None}
    return {**decision, "item_id": str(item.id), "tool_call_id": item.tool_call_id, "tool": item.tool}
