"""Climbing the ladder of a review: reminders and escalations, each an act and an event, by the store's clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from signoff.domain.acting import ActKind, act_event, is_open
from signoff.domain.ladders import Rung
from signoff.domain.ports import LockedReview, NewAct, Store, Transaction
from signoff.domain.reviews import Item, Review, ReviewStatus

ACTOR = "signoff"


async def climb(store: Store, review_id: UUID) -> int:
    """Climbs each rung that is due, in order, also those that were missed; returns how many.

    An item whose deadline has passed climbs no more.
    """
    async with store.begin() as tx:
        locked = await tx.reviews.lock(review_id)
        if locked is None or locked.review.status is not ReviewStatus.pending:
            return 0
        waiting = {item.id: item for item in locked.review.items if is_open(item, locked)}
        count = 0
        while due := min(_due(waiting, locked), key=lambda item: (item.next_rung_at, item.ordinal), default=None):
            waiting[due.id] = await _climb_one(tx, locked.review, due)
            count += 1
    return count


def above(item: Item) -> Item:
    """The item once its next rung is climbed. An escalation reaches beyond an assignment: its people may decide too.

    `next_rung_at` is for the store to set.
    """
    rung = item.terms.ladder[item.rung]
    after = replace(item, rung=item.rung + 1, next_rung_at=None)
    if not rung.reviewers:
        return after
    if rung.replace:
        return replace(after, escalated_to=rung.reviewers, replaced=True, assigned_to=())
    assigned = _joined(item.assigned_to, rung.reviewers) if item.assigned_to else ()
    return replace(after, escalated_to=_joined(item.escalated_to, rung.reviewers), assigned_to=assigned)


def _due(waiting: dict[UUID, Item], locked: LockedReview) -> Iterator[Item]:
    for item in waiting.values():
        at: datetime | None = item.next_rung_at
        if at is not None and at <= locked.now and item.rung < len(item.terms.ladder):
            yield item


async def _climb_one(tx: Transaction, review: Review, item: Item) -> Item:
    rung, after = item.terms.ladder[item.rung], above(item)
    next_at = await tx.acts.climb(after, _seconds_of_next(after))
    kind = ActKind.escalated if rung.reviewers else ActKind.reminded
    if rung.reviewers:
        await tx.acts.escalate(review.id, rung.reviewers)
    asked = list(rung.reviewers or item.assigned_to or item.may_decide)
    facts = {"item_id": str(item.id), "tool": item.tool, "rung": after.rung, **_escalation(rung), "reviewers": asked}
    await tx.acts.add(review.id, NewAct(str(kind), ACTOR, None, facts, item.id))
    await tx.events.append(act_event(review, kind, ACTOR, **facts))
    return replace(after, next_rung_at=next_at)


def _escalation(rung: Rung) -> dict[str, bool]:
    return {"replaces": rung.replace} if rung.reviewers else {}


def _seconds_of_next(item: Item) -> float | None:
    ladder = item.terms.ladder
    return ladder[item.rung].after_seconds if item.rung < len(ladder) else None


def _joined(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))
