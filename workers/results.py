"""Results as the ledger keeps them, and the messages that the agent is told from them."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from signoff.domain.canonical import scrub, scrub_value
from signoff.domain.effects import Effect, EffectStatus
from signoff.workers import refusals
from signoff.workers.calls import Call
from signoff.workers.shortening import beginning, size, with_note

SERDE = JsonPlusSerializer()
SKIPPED = "[Not the tool's answer: an operator skipped this call and put this in its place.]\n"
SKIPPED_LONG_AGO = "[An operator skipped this call; what was put in its place is no longer kept.]"
CARRIED_OUT = "[This call was carried out; its result is no longer kept.]"


def pack(message: ToolMessage) -> tuple[str, bytes]:
    """A tool's result in LangGraph's own form: (type, bytes)."""
    return SERDE.dumps_typed(
        {"content": scrub_value(message.content), "artifact": message.artifact, "status": message.status}
    )


def pack_text(text: str) -> tuple[str, bytes]:
    """A result that an operator gives in place of the tool's."""
    return SERDE.dumps_typed({"content": scrub(text), "artifact": None, "status": "success"})


def within_limit(
    packed: tuple[str, bytes], limit: int, operation_id: str
) -> tuple[tuple[str, bytes], tuple[str, bytes] | None]:
    """(what the agent is told, what is kept aside): a result of up to `limit` bytes as it is, and nothing aside.

    Of a larger one the agent is told its beginning, and where the rest is; the note comes on top of the limit.
    What is for the graph alone, its artifact, is not handed on then.
    """
    if len(packed[1]) <= limit:
        return packed, None
    whole = SERDE.loads_typed(packed)
    note = _note(whole, len(packed[1]), limit, operation_id)
    content = with_note(beginning(whole["content"], limit), note)
    return SERDE.dumps_typed({**whole, "content": content, "artifact": None}), packed


def _note(whole: dict[str, Any], total: int, limit: int, operation_id: str) -> str:
    cut = "This is the beginning." if size(whole["content"]) > limit else "What is not for your eyes was left out."
    return (
        f"[This result is too long: {total} bytes. {cut} All of it is kept: an operator reads it with"
        f" `signoff effects result {operation_id}`.]"
    )


def unpack(effect: Effect) -> dict[str, Any]:
    """{"content", "artifact", "status"}; empty content if there is no result."""
    if effect.result_type is None or effect.result is None:
        return {"content": "", "artifact": None, "status": "success"}
    value: dict[str, Any] = SERDE.loads_typed((effect.result_type, effect.result))
    return value


def from_ledger(call: Call, effect: Effect) -> ToolMessage:
    """The result message of an ended effect: the same on every redelivery, resume and replay.

    Once it is purged, what is left to say: that it was carried out, or skipped.
    """
    if effect.status is EffectStatus.succeeded:
        return _result(call, effect, CARRIED_OUT if effect.purged_at else "")
    if effect.status is EffectStatus.skipped:
        return _result(call, effect, SKIPPED_LONG_AGO if effect.purged_at else SKIPPED)
    if effect.status is EffectStatus.cancelled:
        return refusal(call, refusals.cancelled(call["tool"]))
    if effect.status is EffectStatus.in_doubt:
        return refusal(call, refusals.doubted(call["tool"]))
    if effect.status is EffectStatus.dead:
        return refusal(call, refusals.given_up(call["tool"], effect.error_message))
    if effect.status is EffectStatus.revoked:
        return refusal(call, refusals.revoked(call["tool"], effect.error_message or "it was withdrawn"))
    return refusal(call, refusals.failed(call["tool"], effect.error_message))


def refusal(call: Call, text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call["tool_call_id"], name=call["tool"], status="error")


def storable(text: str) -> str:
    return scrub(text)


def _result(call: Call, effect: Effect, note: str) -> ToolMessage:
    result = unpack(effect)
    if call["edited"]:
        note = refusals.edited(call["tool"], call["args"] or {}) + note
    content = result["content"]
    if note:
        content = note + content if isinstance(content, str) else [{"type": "text", "text": note}, *content]
    return ToolMessage(
        content,
        artifact=result["artifact"],
        status=result["status"],
        tool_call_id=call["tool_call_id"],
        name=call["tool"],
    )
