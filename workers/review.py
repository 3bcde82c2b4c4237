"""What a reviewer's answer makes of the calls and the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from signoff.workers import refusals
from signoff.workers.calls import Call
from signoff.workers.messages import EditedCall, with_edited_calls


def apply_answer(
    messages: Sequence[AnyMessage], calls: Sequence[Call], refused: Sequence[str], answer: Any
) -> dict[str, Any]:
    """The state's change after a review: approved calls, edited ones, and results for those that don't run.

    `answer` holds an outcome by operation id. A call that needs review and has none counts as rejected.
    """
    outcomes = answer.get("items", {}) if isinstance(answer, dict) else {}
    settled = [_settle(call, outcomes.get(call["operation_id"], {})) for call in calls if call["verdict"] == "review"]
    by_place = {call["ordinal"]: call for call, _ in settled}
    after = [by_place.get(call["ordinal"], call) for call in calls]
    # Each once: a second time it would count as proposed again.
    rejected = dict.fromkeys(call["digest"] for call in calls if _is_rejected(call, outcomes))
    stopped = any(outcome.get("then") == "stop" for outcome in outcomes.values())
    return {
        "messages": [*_edited_message(messages, after), *(result for _, result in settled if result is not None)],
        "calls": after,
        "refused": [*refused, *(digest for digest in rejected if digest not in refused)],
        **({"stopped": True} if stopped else {}),
    }


def _settle(call: Call, outcome: Mapping[str, Any]) -> tuple[Call, ToolMessage | None]:
    kind = outcome.get("type")
    if kind == "edit" and call["args"] is not None:
        edited = {name: outcome[name] for name in ("tool", "operation_id", "digest", "edits")}
        changes = {**edited, "args": dict(outcome["args"]), "edited": True, "verdict": "approved"}
        return Call(**{**call, **changes}), None  # type: ignore[typeddict-item]
    if call["args"] is not None and (kind == "approve" or _goes_on(outcome)):
        return {**call, "verdict": "approved"}, None
    return {**call, "verdict": "closed"}, _result(call, outcome)


def _goes_on(outcome: Mapping[str, Any]) -> bool:
    """Time was to allow it. Whether it may, the executor finds out for itself."""
    return outcome.get("type") == "expired" and outcome.get("at_deadline") == "approve"


def _result(call: Call, outcome: Mapping[str, Any]) -> ToolMessage:
    kind, tool = outcome.get("type"), call["tool"]
    if kind == "respond":
        return _message(call, str(outcome["message"]), "success")
    if kind == "reject":
        return _message(call, refusals.rejected(tool, outcome.get("message"), outcome.get("then") or "stop"), "error")
    if kind == "expired":
        return _message(call, refusals.expired(tool), "error")
    return _message(call, refusals.undecided(tool), "error")


def _message(call: Call, text: str, status: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call["tool_call_id"], name=call["tool"], status=status)


def _is_rejected(call: Call, outcomes: Mapping[str, Mapping[str, Any]]) -> bool:
    if call["verdict"] != "review":
        return False
    return outcomes.get(call["operation_id"], {}).get("type") not in ("approve", "edit", "respond", "expired")


def _edited_message(messages: Sequence[AnyMessage], calls: Sequence[Call]) -> list[AIMessage]:
    edited = {call["tool_call_id"]: EditedCall(call["tool"], call["args"] or {}) for call in calls if call["edited"]}
    if not edited:
        return []
    message_id = next(call["message_id"] for call in calls if call["edited"])
    message = next(message for message in reversed(messages) if message.id == message_id)
    assert isinstance(message, AIMessage)
    return [with_edited_calls(message, edited)]
