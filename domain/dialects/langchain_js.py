"""LangChain's `humanInTheLoopMiddleware` in JavaScript: camelCase, `editedAction`, and no respond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.domain.decisions import Answer
from signoff.domain.dialects.reading import (
    check_arguments,
    read_entries,
    read_id,
    read_object,
    read_text,
    read_word,
    require_one_way,
)
from signoff.domain.errors import EditIncomplete
from signoff.domain.policy import DecisionType
from signoff.domain.reviews import Review

BODY = '{"decisions": [{"type": …}]}'
WORDS = (DecisionType.approve, DecisionType.edit, DecisionType.reject)
KEYS: Mapping[str, tuple[str, ...]] = {
    DecisionType.approve: (),
    DecisionType.edit: ("editedAction",),
    DecisionType.reject: ("message",),
}
ADDRESS = ("type", "itemId", "toolCallId")
EDITED = 'an edit needs "editedAction": {"name": <tool>, "args": {…}}'
# Its first versions, and programs written for them, say `arguments`.
ARGUMENT_KEYS = ("args", "arguments")


class LangChainJs:
    """`itemId` or `toolCallId` may stand beside LangChain's keys, to decide some of the items."""

    name = "langchain-js"

    def read(self, body: Any, review: Review) -> list[Answer]:
        entries = read_entries(body, "decisions", BODY)
        answers = [_answer(f"decisions[{place}]", raw) for place, raw in enumerate(entries)]
        return require_one_way(answers, "itemId or toolCallId")

    def write(self, view: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "actionRequests": view["action_requests"],
            "reviewConfigs": [_config(config) for config in view["review_configs"]],
        }


def _answer(where: str, raw: Any) -> Answer:
    named = read_object(where, raw, raw if isinstance(raw, dict) else (), "an object with a 'type'")
    kind = read_word(where, "type", named.get("type"), WORDS)
    read_object(where, raw, {*ADDRESS, *KEYS[kind]}, f"a decision of type '{kind}'")
    name, args = _edited(where, raw.get("editedAction")) if kind == DecisionType.edit else (None, None)
    item_id = raw.get("itemId")
    return Answer(
        type=DecisionType(kind),
        item_id=None if item_id is None else read_id(where, "itemId", item_id),
        tool_call_id=read_text(where, "toolCallId", raw.get("toolCallId")),
        edited_name=name,
        edited_args=args,
        message=read_text(where, "message", raw.get("message")),
    )


def _edited(where: str, action: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(action, dict) or not isinstance(action.get("name"), str):
        raise EditIncomplete(f"{where}: {EDITED}")
    keys = [key for key in ARGUMENT_KEYS if key in action]
    if len(keys) != 1 or set(action) != {"name", *keys}:
        raise EditIncomplete(f"{where}: {EDITED}")
    return action["name"], check_arguments(where, action[keys[0]], EDITED)


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "actionName": config["action_name"],
        "allowedDecisions": [word for word in config["allowed_decisions"] if word in WORDS],
        "argsSchema": config["args_schema"],
    }
