"""What is done with a review beside deciding it: claim and release, comment, cancel. Each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from signoff.domain.acting import Acting, ActKind, Deciders, acting_on
from signoff.domain.authority import Principal
from signoff.domain.canonical import scrub
from signoff.domain.deciders import is_claimed
from signoff.domain.deciding import complete_review
from signoff.domain.errors import AlreadyDecided, Forbidden, InvalidRequest
from signoff.domain.ports import Hints, Store
from signoff.domain.reviews import Item, ReviewStatus

DEFAULT_CLAIM_SECONDS = 900
LONGEST_CLAIM_SECONDS = 86_400
MAX_COMMENT_CHARACTERS = 20_000
MAX_REASON_CHARACTERS = 2000


async def claim(
    store: Store, review_id: UUID, who: Principal, *, environment: str, seconds: float = DEFAULT_CLAIM_SECONDS
) -> datetime:
    """Holds the review for `who`: until then nobody else decides it. Claimed again it lasts longer, never shorter.

    No claim stops a deadline, and a reassignment or an escalation ends it.

    Raises:
        ReviewNotFound, InvalidRequest (the seconds), ReviewClaimed (by another), the errors of a closed review, and
        those of `Deciders.require` for who may decide none of it; AlreadyDecided for who has had their voice.
    """
    _check_seconds(seconds)
    async with acting_on(store, review_id, who) as acting:
        items = acting.open_items()
        _require_part(await Deciders.of(acting, environment), who, items)
        acting.require_unclaimed()
        until = await acting.tx.acts.claim(review_id, who.name, seconds)
        await acting.record(ActKind.claimed, claimed_until=until.isoformat())
    return until


async def release(store: Store, review_id: UUID, who: Principal) -> None:
    """Ends a claim, by who has it or an operator. Where there is none, nothing changes.

    Raises: ReviewNotFound, RightMissing, and the errors of a closed review.
    """
    async with acting_on(store, review_id, who) as acting:
        acting.open_items()
        if not is_claimed(acting.review, acting.locked.now):
            return
        by = acting.review.claimed_by
        if by != who.name:
            acting.require_operator()
        await acting.tx.acts.end_claim(review_id)
        await acting.record(ActKind.released, claimed_by=by)


async def comment(store: Store, review_id: UUID, who: Principal, text: str) -> None:
    """Adds a comment, by whoever sees the review; also when it is closed. Raises ReviewNotFound, InvalidRequest."""
    words = cleaned("text", text, MAX_COMMENT_CHARACTERS)
    async with acting_on(store, review_id, who) as acting:
        await acting.record(ActKind.commented, words)


async def cancel_review(
    store: Store, hints: Hints, review_id: UUID, who: Principal, reason: str, *, environment: str
) -> None:
    """Cancels what is open, and the job goes on: the agent is told that nobody decided. What was approved still runs.

    By an operator, or by somebody who may decide every open item.

    Raises:
        ReviewNotFound, InvalidRequest (the reason), ReviewClaimed (by another, but for an operator), the errors of a
        closed review, and those of `Deciders.require`.
    """
    words = cleaned("reason", reason, MAX_REASON_CHARACTERS)
    async with acting_on(store, review_id, who) as acting:
        items = acting.open_items()
        if not acting.operates:
            deciders = await Deciders.of(acting, environment)
            for item in items:
                deciders.require(who, item)
            acting.require_unclaimed()
        job = acting.locked.job
        await _cancel(acting, words)
    hints.offer(job.agent, job.id)


def cleaned(name: str, text: Any, most: int) -> str:
    """The text without what can't be stored, and without space around it. Raises InvalidRequest."""
    words = scrub(text).strip() if isinstance(text, str) else ""
    if not words or len(words) > most:
        raise InvalidRequest(f"'{name}' must be text of 1 to {most} characters", field=name)
    return words


async def _cancel(acting: Acting, reason: str) -> None:
    tx, review_id = acting.tx, acting.review.id
    await tx.reviews.expire_items(review_id)
    await tx.acts.cancel_items(review_id)
    await acting.note(ActKind.cancelled, reason)
    after = await tx.reviews.lock(review_id)
    assert after is not None
    await complete_review(tx, after, (), ReviewStatus.cancelled, acting.who.name, reason=reason)


def _require_part(deciders: Deciders, who: Principal, items: Sequence[Item]) -> None:
    """Raises what stands in the way of deciding the first item, if something does for each of them."""
    refusals: list[Forbidden | AlreadyDecided] = []
    for item in items:
        try:
            deciders.require(who, item)
            _require_unspoken(who, item)
        except (Forbidden, AlreadyDecided) as error:
            refusals.append(error)
        else:
            return
    raise refusals[0]


def _require_unspoken(who: Principal, item: Item) -> None:
    if who.name in item.spoken:
        own = next(one for one in item.voices if who.name in one.authority.people)
        raise AlreadyDecided(f"{who.name} has had their voice; it needs somebody else", winner=own.brief())


def _check_seconds(seconds: Any) -> None:
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 1 <= seconds <= LONGEST_CLAIM_SECONDS:
        raise InvalidRequest(f"'seconds' must be a number from 1 to {LONGEST_CLAIM_SECONDS}", field="seconds")
