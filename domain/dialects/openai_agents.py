"""Approve and reject by call id, as programs for the OpenAI Agents SDK do; there is no edit and no respond."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from signoff.domain.decisions import Answer
from signoff.domain.dialects.reading import read_bool, read_entries, read_object, read_text
from signoff.domain.errors import InvalidRequest
from signoff.domain.policy import DecisionType
from signoff.domain.reviews import Review

BODY = '{"decisions": [{"call_id": …, "approve": true or false, "reason"?: …}]}'
ENTRY = '{"call_id": …, "approve": true or false, "reason"?: …}'


class OpenAiAgents:
    name = "openai-agents"

    def read(self, body: Any, review: Review) -> list[Answer]:
        entries = read_entries(body, "decisions", BODY)
        return [_answer(f"decisions[{place}]", raw) for place, raw in enumerate(entries)]

    def write(self, view: Mapping[str, Any]) -> dict[str, Any]:
        """The open items, as `result.interruptions` holds them."""
        open_items = [item for item in view["items"] if item["status"] == "open"]
        return {"interruptions": [_interruption(view["agent"], item) for item in open_items]}


def _answer(where: str, raw: Any) -> Answer:
    entry = read_object(where, raw, ("call_id", "approve", "reason"), ENTRY)
    call_id = read_text(where, "call_id", entry.get("call_id"))
    if call_id is None:
        raise InvalidRequest(f"{where}: 'call_id' must be the id of a tool call; an entry is {ENTRY}")
    approve = read_bool(where, "approve", entry.get("approve"))
    reason = read_text(where, "reason", entry.get("reason"))
    if approve and reason:
        raise InvalidRequest(f"{where}: a 'reason' goes with a refusal; with \"approve\": true nobody would read it")
    return Answer(DecisionType.approve if approve else DecisionType.reject, tool_call_id=call_id, message=reason)


def _interruption(agent: str, item: Mapping[str, Any]) -> dict[str, Any]:
    unreadable = item["unreadable_args"]
    arguments = json.dumps(item["args"], ensure_ascii=False) if unreadable is None else unreadable
    call = {"type": "function_call", "call_id": item["tool_call_id"], "name": item["tool"], "arguments": arguments}
    return {"type": "tool_approval_item", "agent": {"name": agent}, "tool_name": item["tool"], "raw_item": call}
