"""Decisions as they arrive: LangChain's wire form, read strictly, before anything is changed.

    {"decisions": [{"type": "approve"},
                   {"type": "edit", "edited_action": {"name": …, "args": {…}}},
                   {"type": "reject", "message": …, "then": "stop" | "ask" | "revise"},
                   {"type": "respond", "message": …}]}

By position, or each with `item_id` or `tool_call_id`. A `revision` or `digest` says which call the reviewer saw: needed
where the call has been amended since the agent asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from signoff.domain.canonical import canonical_json, has_storable_integers, scrub
from signoff.domain.errors import EditIncomplete, InvalidRequest, MessageRequired, UnreadableArguments
from signoff.domain.policy import DecisionType

MAX_MESSAGE_CHARACTERS = 20_000


class NextStep(StrEnum):
    """What the agent may do after a refusal."""

    stop = "stop"
    ask = "ask"
    revise = "revise"


@dataclass(frozen=True, slots=True)
class Answer:
    """One decision as a reviewer sent it; `item_id` and `tool_call_id` are None when it goes by position.

    `revision` and `digest` are those of the call that the reviewer saw, if given.
    """

    type: DecisionType
    item_id: UUID | None = None
    tool_call_id: str | None = None
    edited_name: str | None = None
    edited_args: Mapping[str, Any] | None = None
    message: str | None = None
    then: NextStep | None = None
    revision: int | None = None
    digest: str | None = None

    @property
    def by_position(self) -> bool:
        return self.item_id is None and self.tool_call_id is None


KEYS: Mapping[DecisionType, frozenset[str]] = {
    DecisionType.approve: frozenset(),
    DecisionType.edit: frozenset({"edited_action", "message"}),
    DecisionType.reject: frozenset({"message", "then"}),
    DecisionType.respond: frozenset({"message"}),
}
ADDRESS_KEYS = frozenset({"type", "item_id", "tool_call_id", "revision", "digest"})


def parse_answers(body: Any) -> list[Answer]:
    """Reads the body of a decision request.

    Raises:
        InvalidRequest, EditIncomplete, MessageRequired: naming the decision by its place and what was expected.
    """
    if not isinstance(body, dict) or not isinstance(body.get("decisions"), list):
        raise InvalidRequest('a decision is an object {"decisions": [...]}')
    unknown = sorted(set(body) - {"decisions"})
    if unknown:
        raise InvalidRequest(f"unknown field {unknown[0]!r} beside 'decisions'")
    if not body["decisions"]:
        raise InvalidRequest("'decisions' is empty")
    answers = [_answer(place, raw) for place, raw in enumerate(body["decisions"])]
    if len({answer.by_position for answer in answers}) > 1:
        raise InvalidRequest("either every decision names its item_id or tool_call_id, or none does")
    return answers


def _answer(place: int, raw: Any) -> Answer:
    where = f"decisions[{place}]"
    if not isinstance(raw, dict):
        raise InvalidRequest(f"{where} must be an object with a 'type'")
    kind = _kind(where, raw.get("type"))
    unknown = sorted(set(raw) - KEYS[kind] - ADDRESS_KEYS)
    if unknown:
        raise InvalidRequest(f"{where}: unknown field {unknown[0]!r} in a decision of type '{kind}'")
    name, args = _edited(where, raw) if kind is DecisionType.edit else (None, None)
    return Answer(
        type=kind,
        item_id=_uuid(where, raw.get("item_id")),
        tool_call_id=_optional_text(where, raw, "tool_call_id"),
        edited_name=name,
        edited_args=args,
        message=_message(where, kind, raw),
        then=_next_step(where, raw.get("then")),
        revision=_revision(where, raw.get("revision")),
        digest=_optional_text(where, raw, "digest"),
    )


def _kind(where: str, value: Any) -> DecisionType:
    try:
        return DecisionType(value)
    except ValueError:
        words = ", ".join(DecisionType)
        raise InvalidRequest(f"{where}: 'type' is {value!r}; it must be one of {words}") from None


def _edited(where: str, raw: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    action = raw.get("edited_action")
    wanted = f'{where}: an edit needs "edited_action": {{"name": <tool>, "args": {{…}}}}'
    if not isinstance(action, dict) or set(action) != {"name", "args"}:
        raise EditIncomplete(wanted)
    if not isinstance(action["name"], str) or not isinstance(action["args"], dict):
        raise EditIncomplete(wanted)
    try:
        canonical_json(action["args"])
    except UnreadableArguments as error:
        raise EditIncomplete(f"{where}: the edited arguments can't be used: {error.message}") from error
    if not has_storable_integers(action["args"]):
        raise EditIncomplete(f"{where}: the edited arguments hold an integer of more than 64 bits")
    return action["name"], action["args"]


def _message(where: str, kind: DecisionType, raw: Mapping[str, Any]) -> str | None:
    message = _optional_text(where, raw, "message")
    if kind is DecisionType.respond and not (message or "").strip():
        raise MessageRequired(f"{where}: a respond decision needs a 'message': it is what the agent is told")
    return message or None


def _optional_text(where: str, raw: Mapping[str, Any], key: str) -> str | None:
    value = raw.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_MESSAGE_CHARACTERS or scrub(value) != value:
        raise InvalidRequest(f"{where}: '{key}' must be text of at most {MAX_MESSAGE_CHARACTERS} characters")
    return value


def _next_step(where: str, value: Any) -> NextStep | None:
    if value is None:
        return None
    try:
        return NextStep(value)
    except ValueError:
        raise InvalidRequest(f"{where}: 'then' is {value!r}; it must be one of {', '.join(NextStep)}") from None


def _revision(where: str, value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31):
        return value
    raise InvalidRequest(f"{where}: 'revision' must be the number of the revision that was seen, from 1 up")


def _uuid(where: str, value: Any) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidRequest(f"{where}: 'item_id' is not an id: {value!r}") from None
