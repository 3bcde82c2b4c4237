"""Agent Inbox: a list that holds one response, whose edited values are text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.domain.decisions import Answer
from signoff.domain.dialects.reading import (
    check_arguments,
    only_item,
    read_needed_text,
    read_object,
    read_word,
)
from signoff.domain.dialects.text_values import read_text_values, same_in_javascript
from signoff.domain.errors import EditIncomplete, InvalidRequest
from signoff.domain.hiding import masked
from signoff.domain.policy import DecisionType
from signoff.domain.reviews import Item, Review

BODY = 'a list of one: [{"type": "accept" or "ignore" or "response" or "edit", "args": …}]'
WORDS = ("accept", "ignore", "response", "edit")
ONE_ONLY = "an answer of Agent Inbox is for one, and can't say which: use another dialect"
REQUEST = '\'args\' must be {"action": <tool>, "args": {…}}'
WHERE = "[0]"


class AgentInbox:
    """Decides reviews of one item: its form has no place to say which of several is meant."""

    name = "agent-inbox"

    def read(self, body: Any, review: Review) -> list[Answer]:
        if not isinstance(body, list) or len(body) != 1:
            raise InvalidRequest(f"the body must be {BODY}")
        raw = read_object(WHERE, body[0], ("type", "args"), '{"type": …, "args": …}')
        kind = read_word(WHERE, "type", raw.get("type"), WORDS)
        item = only_item(review, ONE_ONLY)
        return [_READERS[kind](raw.get("args"), item)]

    def write(self, view: Mapping[str, Any]) -> list[Any]:
        """A list of `HumanInterrupt`, one for each item."""
        return [_interrupt(item) for item in view["items"]]


def _accept(args: Any, item: Item) -> Answer:
    """Agent Inbox echoes the call that it showed: another one was not seen by who accepts."""
    if args is None:
        return Answer(DecisionType.approve)
    name, echoed = _request(args, item)
    own = dict(item.args or {})
    in_full = same_in_javascript(echoed, own)
    if name != item.tool or not (in_full or same_in_javascript(echoed, masked(own, item.terms.hidden))):
        raise InvalidRequest(f"{WHERE}: the accepted call is not the one under review; send it as an edit")
    # The echo says which revision was seen; not if it may be another one that differs in what is hidden.
    return Answer(DecisionType.approve, digest=item.digest if in_full else None)


def _ignore(args: Any, item: Item) -> Answer:
    if args is not None:
        raise InvalidRequest(f"{WHERE}: 'args' must be null in a response of type 'ignore'")
    return Answer(DecisionType.reject)


def _response(args: Any, item: Item) -> Answer:
    """Its one button with text stands for both: where the rule opens no respond, the text is why it is refused."""
    message = read_needed_text(WHERE, "args", args)
    respond = DecisionType.respond in item.allowed_decisions
    return Answer(DecisionType.respond if respond else DecisionType.reject, message=message)


def _edit(args: Any, item: Item) -> Answer:
    name, edited = _request(args, item)
    return Answer(DecisionType.edit, edited_name=name, edited_args=edited)


def _request(value: Any, item: Item) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict) or set(value) != {"action", "args"} or not isinstance(value["action"], str):
        raise EditIncomplete(f"{WHERE}: {REQUEST}")
    args = check_arguments(WHERE, value["args"], REQUEST)
    return value["action"], check_arguments(WHERE, read_text_values(f"{WHERE}.args", args, item), REQUEST)


_READERS = {"accept": _accept, "ignore": _ignore, "response": _response, "edit": _edit}


def _interrupt(item: Mapping[str, Any]) -> dict[str, Any]:
    allowed = set(item["allowed_decisions"])
    return {
        "action_request": {"action": item["tool"], "args": dict(item["args"] or {})},
        "config": {
            "allow_ignore": DecisionType.reject in allowed,
            "allow_respond": bool(allowed & {DecisionType.respond, DecisionType.reject}),
            "allow_edit": DecisionType.edit in allowed,
            "allow_accept": DecisionType.approve in allowed,
        },
        "description": item["description"],
    }
