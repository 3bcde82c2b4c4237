"""Parts of a body, read strictly; `where` is the place that a refusal names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from signoff.domain.canonical import canonical_json, has_storable_integers, scrub
from signoff.domain.decisions import MAX_MESSAGE_CHARACTERS, Answer
from signoff.domain.errors import (
    EditIncomplete,
    InvalidRequest,
    MessageRequired,
    UnknownItem,
    UnreadableArguments,
    WrongDecisionCount,
)
from signoff.domain.reviews import Item, Review


def read_object(where: str, value: Any, keys: Collection[str], wanted: str) -> dict[str, Any]:
    """An object with no other keys than these."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"{where} must be {wanted}")
    if unknown := sorted(set(value) - set(keys)):
        raise InvalidRequest(f"{where}: unknown field {unknown[0]!r}; it must be {wanted}")
    return value


def read_entries(body: Any, key: str, wanted: str) -> list[Any]:
    """The list under the body's one key; it is not empty."""
    entries = read_object("the body", body, {key}, wanted).get(key)
    if not isinstance(entries, list):
        raise InvalidRequest(f"{key!r} must be a list; the body is {wanted}")
    if not entries:
        raise InvalidRequest(f"{key!r} is empty")
    return entries


def read_word(where: str, key: str, value: Any, words: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in words:
        raise InvalidRequest(f"{where}: {key!r} is {value!r:.100}; it must be one of {', '.join(words)}")
    return value


def read_bool(where: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{where}: {key!r} is {value!r:.100}; it must be true or false")
    return value


def read_text(where: str, key: str, value: Any) -> str | None:
    """Text; None for what is absent, null or empty."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_MESSAGE_CHARACTERS or scrub(value) != value:
        raise InvalidRequest(f"{where}: {key!r} must be text of at most {MAX_MESSAGE_CHARACTERS} characters")
    return value or None


def read_needed_text(where: str, key: str, value: Any) -> str:
    text = read_text(where, key, value)
    if text is None or not text.strip():
        raise MessageRequired(f"{where}: {key!r} must be text that is not empty: it is what the agent is told")
    return text


def read_id(where: str, key: str, value: Any) -> UUID:
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidRequest(f"{where}: {key!r} is not an id: {value!r:.100}") from None


def check_arguments(where: str, args: Any, wanted: str) -> dict[str, Any]:
    """Edited arguments that can be digested and stored. Raises EditIncomplete."""
    if not isinstance(args, dict):
        raise EditIncomplete(f"{where}: {wanted}")
    try:
        canonical_json(args)
    except UnreadableArguments as error:
        raise EditIncomplete(f"{where}: the edited arguments can't be used: {error.message}") from error
    if not has_storable_integers(args):
        raise EditIncomplete(f"{where}: the edited arguments hold an integer of more than 64 bits")
    return args


def only_item(review: Review, wanted: str) -> Item:
    """The review's item, for forms that have no place to say which one is meant."""
    if len(review.items) != 1:
        count = len(review.items)
        raise WrongDecisionCount(f"the review has {count} items; {wanted}", items=count, decisions=1)
    return review.items[0]


def item_of(review: Review, where: str, item_id: UUID) -> Item:
    for item in review.items:
        if item.id == item_id:
            return item
    known = [{"item_id": str(item.id), "tool_call_id": item.tool_call_id} for item in review.items]
    raise UnknownItem(f"{where}: the review has no item {item_id}", items=known)


def require_one_way(answers: list[Answer], keys: str) -> list[Answer]:
    """Raises InvalidRequest if some decisions name their item and others go by position."""
    if len({answer.by_position for answer in answers}) > 1:
        raise InvalidRequest(f"either every decision names its {keys}, or none does")
    return answers
