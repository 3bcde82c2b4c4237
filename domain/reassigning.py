"""Reassigning a review: of those who may decide an item, the only ones who are to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from signoff.domain.acting import Acting, ActKind, Deciders, acting_on
from signoff.domain.authority import Principal, is_reviewer
from signoff.domain.canonical import scrub
from signoff.domain.errors import AlreadyDecided, Forbidden, InvalidRequest, ReviewCancelled, ReviewExpired, UnknownItem
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.ports import Store
from signoff.domain.review_acts import MAX_REASON_CHARACTERS, cleaned
from signoff.domain.reviews import Item, ItemStatus

MOST_NAMES = 50


async def reassign(
    store: Store,
    review_id: UUID,
    who: Principal,
    to: Sequence[str],
    *,
    environment: str,
    item_id: UUID | None = None,
    reason: str | None = None,
) -> None:
    """Narrows who is to decide an item, or all open ones, to groups and people (`@name`); to nobody widens it again.

    By an operator, or by somebody who may decide it, also where it was assigned to others. A claim ends with it.

    Raises:
        ReviewNotFound, UnknownItem, InvalidRequest (somebody who can't decide the item as it stands: `may_decide` are
        those who can), the errors of a closed review, and those of `Deciders.require`.
    """
    names = _names(to)
    words = None if reason is None else cleaned("reason", reason, MAX_REASON_CHARACTERS)
    async with acting_on(store, review_id, who) as acting:
        items = _chosen(acting, item_id)
        deciders = await Deciders.of(acting, environment)
        people = await _people(acting, names)
        for item in items:
            if not acting.operates:
                deciders.require(who, item, assigned=False)
            for name in names:
                _require_able(name, people.get(name), item, deciders)
        await acting.tx.acts.assign([item.id for item in items], names)
        await acting.tx.acts.end_claim(review_id)
        ids = [str(item.id) for item in items]
        await acting.record(ActKind.reassigned, words, item_ids=ids, assigned_to=list(names))


def _names(to: Any) -> tuple[str, ...]:
    """Raises InvalidRequest."""
    good = isinstance(to, Sequence) and not isinstance(to, str) and len(to) <= MOST_NAMES and all(map(_is_name, to))
    if not good:
        raise InvalidRequest(f"'to' must be a list of at most {MOST_NAMES} groups and people, as '@name'", field="to")
    return tuple(dict.fromkeys(to))


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and scrub(name) == name


def _chosen(acting: Acting, item_id: UUID | None) -> Sequence[Item]:
    """Raises UnknownItem, and what keeps the item from being decided at all."""
    items = acting.open_items()
    if item_id is None:
        return items
    named = next((item for item in acting.review.items if item.id == item_id), None)
    if named is None:
        raise UnknownItem(f"the review has no item {item_id}", items=[str(item.id) for item in acting.review.items])
    if named not in items:
        raise _ended(named)
    return [named]


def _ended(item: Item) -> Exception:
    if item.decision is not None:
        return AlreadyDecided(f"{item.decision.reviewer} has decided this item already", winner=item.decision.brief())
    if item.status in (ItemStatus.open, ItemStatus.expired):
        return ReviewExpired(f"the deadline of {item.tool} has passed", deadline_at=str(item.deadline_at))
    return ReviewCancelled(f"the item is {item.status}", status=str(item.status))


async def _people(acting: Acting, names: Sequence[str]) -> dict[str, Principal | None]:
    """Those of the names that are of people, each as of now."""
    return {name: await acting.tx.principals.get(name[1:]) for name in names if name.startswith("@")}


def _require_able(name: str, person: Principal | None, item: Item, deciders: Deciders) -> None:
    """Raises InvalidRequest unless the group, or the person, can decide the item as it stands."""
    why = _why_unable_person(name, person, item, deciders) if name.startswith("@") else _why_unable_group(name, item)
    if why is not None:
        able = ", ".join(item.may_decide)
        raise InvalidRequest(
            f"{item.tool} can't be assigned to {name}: {why}; it can go to {able}",
            field="to",
            item_id=str(item.id),
            may_decide=list(item.may_decide),
        )


def _why_unable_group(name: str, item: Item) -> str | None:
    return None if name in item.may_decide else "the group may not decide it"


def _why_unable_person(name: str, person: Principal | None, item: Item, deciders: Deciders) -> str | None:
    if person is None or not is_reviewer(person):
        return "there is no such reviewer"
    if person.name in item.spoken:
        return "they have had their voice"
    try:
        deciders.require(person, item, assigned=False)
    except Forbidden as error:
        return error.message
    return None
