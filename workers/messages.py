"""Messages of a thread: which calls are open, and how a call is rewritten everywhere that a message repeats it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from signoff.domain.canonical import canonical_json, has_storable_integers, scrub, scrub_value
from signoff.domain.errors import UnreadableArguments


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call as the model wrote it: `args`, or the text that can't be read as arguments."""

    ordinal: int
    id: str | None
    tool: str
    args: Mapping[str, Any] | None
    unreadable_args: str | None = None


def calls_of(message: AIMessage) -> list[ProposedCall]:
    """Every call of a message, those with unreadable arguments last."""
    readable = [
        ProposedCall(place, call["id"], call["name"], call["args"]) for place, call in enumerate(message.tool_calls)
    ]
    first = len(readable)
    unreadable = [
        ProposedCall(first + place, call["id"], call["name"] or "", None, call["args"] or "")
        for place, call in enumerate(message.invalid_tool_calls)
    ]
    return readable + unreadable


def open_calls(messages: Sequence[AnyMessage]) -> list[tuple[str, str]]:
    """(call id, tool) of every call that has no result yet."""
    # In order: a model may use the id of an earlier, answered call again.
    waiting: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            waiting.update({call.id: call.tool for call in calls_of(message) if call.id is not None})
        elif isinstance(message, ToolMessage):
            waiting.pop(message.tool_call_id, None)
    return list(waiting.items())


def clean(message: AIMessage) -> AIMessage:
    """The model's answer as it may enter the state: storable text, and arguments that a checkpoint can hold.

    NUL and lone surrogates can't be stored, and an integer beyond 64 bits fails every later checkpoint. Arguments with
    such a value count as unreadable, so that a person sees them.
    """
    named = [
        {**call, "name": scrub(call["name"]), "id": call["id"] and scrub(call["id"])} for call in message.tool_calls
    ]
    readable = [call for call in named if _is_storable(call["args"])]
    unreadable = [
        {
            "type": "invalid_tool_call",
            "id": call["id"],
            "name": call["name"],
            "args": _as_text(call["args"]),
            "error": "the arguments hold a value that can't be stored",
        }
        for call in named
        if not _is_storable(call["args"])
    ]
    parts = {
        "id": message.id and scrub(message.id),
        "content": _storable(message.content),
        "tool_calls": readable,
        "invalid_tool_calls": scrub_value([*message.invalid_tool_calls, *unreadable]),
        "additional_kwargs": _storable(message.additional_kwargs),
        "response_metadata": _storable(message.response_metadata),
    }
    return message.model_copy(update=parts)


def with_ids(message: AIMessage, message_id: str) -> AIMessage:
    """The same message with an id, and with an id of its own for every call that has none or shares one."""
    seen: set[str] = set()
    calls = [
        {**call, "id": _own_id(call["id"], message_id, place, seen)} for place, call in enumerate(message.tool_calls)
    ]
    first = len(calls)
    invalid = [
        {**call, "id": _own_id(call["id"], message_id, first + place, seen)}
        for place, call in enumerate(message.invalid_tool_calls)
    ]
    if message.id == message_id and calls == message.tool_calls and invalid == message.invalid_tool_calls:
        return message
    return message.model_copy(update={"id": message_id, "tool_calls": calls, "invalid_tool_calls": invalid})


@dataclass(frozen=True, slots=True)
class EditedCall:
    """What a call has become."""

    tool: str
    args: Mapping[str, Any]


def with_edited_calls(message: AIMessage, edited: Mapping[str, EditedCall]) -> AIMessage:
    """The same message, same id, with the calls in `edited` (by call id) as they have become.

    Providers repeat a call: in content blocks (Anthropic `tool_use`, OpenAI Responses `function_call`, LangChain's own
    `tool_call`) and in `additional_kwargs`. All of them change, or the model would be told the old call.
    """
    calls = [_edited_call(call, edited) for call in message.tool_calls]
    parts: dict[str, Any] = {"tool_calls": calls}
    if isinstance(message.content, list):
        parts["content"] = [_edited_block(block, edited) for block in message.content]
    if repeated := message.additional_kwargs.get("tool_calls"):
        rewritten = [_edited_block(call, edited) for call in repeated]
        parts["additional_kwargs"] = {**message.additional_kwargs, "tool_calls": rewritten}
    return message.model_copy(update=parts)


def _edited_call(call: ToolCall, edited: Mapping[str, EditedCall]) -> ToolCall:
    new = edited.get(call["id"] or "")
    return call if new is None else {**call, "name": new.tool, "args": dict(new.args)}


def _edited_block(block: Any, edited: Mapping[str, EditedCall]) -> Any:
    if not isinstance(block, dict):
        return block
    new = edited.get(block.get("call_id") or block.get("id") or "")
    if new is None:
        return block
    args, written = dict(new.args), json.dumps(dict(new.args), ensure_ascii=False)
    if block.get("type") == "tool_use":
        kept = {key: value for key, value in block.items() if key != "partial_json"}
        return {**kept, "name": new.tool, "input": args}
    if block.get("type") == "tool_call":
        return {**block, "name": new.tool, "args": args}
    if block.get("type") == "function_call":
        return {**block, "name": new.tool, "arguments": written}
    if isinstance(block.get("function"), dict):
        return {**block, "function": {**block["function"], "name": new.tool, "arguments": written}}
    return block


def _own_id(call_id: str | None, message_id: str, ordinal: int, seen: set[str]) -> str:
    own = call_id or f"{message_id}-{ordinal}"
    while own in seen:
        own = f"{message_id}-{ordinal}" if own == call_id else f"{own}-"
    seen.add(own)
    return own


def _is_storable(value: Any) -> bool:
    try:
        canonical_json(value)
    except UnreadableArguments:
        return False
    return has_storable_integers(value)


def _storable(value: Any) -> Any:
    """Scrubbed, and integers that a checkpoint can't hold as text."""
    return _with_small_integers(scrub_value(value))


def _with_small_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_small_integers(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_small_integers(part) for part in value]
    return value if has_storable_integers(value) else str(value)


def _as_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return str(scrub_value(text))
