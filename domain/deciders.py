"""Who may decide an item now: one rule for decisions and for all else that is done with a review."""

from __future__ import annotations

from datetime import datetime

from signoff.domain.authority import Authority, Principal, authority_over
from signoff.domain.errors import ReviewClaimed
from signoff.domain.registered import Registered
from signoff.domain.reviews import Item, Review


def authority_on(
    item: Item, who: Principal, registered: Registered, now: datetime, *, assigned: bool = True
) -> Authority:
    """By what right `who` may decide the item as it stands; where `assigned`, also as one of those who are to.

    Raises:
        NotAReviewer, SubmitterMayNotDecide, BeyondAuthority.
    """
    call = registered.facts(item.tool, item.args, requested_by=item.terms.requested_by)
    own = authority_over(who, item.may_decide, call, now=now, spoken=item.spoken)
    if not (assigned and item.assigned_to):
        return own
    as_assigned = authority_over(who, item.assigned_to, call, now=now, spoken=item.spoken)
    return own if as_assigned.on_behalf_of is None else as_assigned


def is_claimed(review: Review, now: datetime) -> bool:
    """True while somebody's claim holds."""
    return review.claimed_until is not None and now < review.claimed_until


def require_unclaimed(review: Review, who: Principal, now: datetime) -> None:
    """Raises ReviewClaimed while somebody else has claimed the review."""
    by, until = review.claimed_by, review.claimed_until
    if is_claimed(review, now) and by != who.name:
        assert until is not None
        raise ReviewClaimed(f"{by} has claimed the review until {until.isoformat()}", claimed_by=by)
