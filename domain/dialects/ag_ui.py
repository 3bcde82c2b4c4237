"""AG-UI: interrupts of a finished run, and the resume entries that answer them.

An interrupt is one item of a review. The payload of a resolved entry is the one that AG-UI recommends for tool calls,
`{"approved": …, "editedArgs"?: …}`, with `message` for a refusal's reason; or `{"response": …}`, our respond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.domain.decisions import Answer, NextStep
from signoff.domain.dialects.reading import (
    check_arguments,
    item_of,
    only_item,
    read_bool,
    read_entries,
    read_id,
    read_needed_text,
    read_object,
    read_text,
    read_word,
)
from signoff.domain.errors import InvalidRequest
from signoff.domain.policy import DecisionType
from signoff.domain.reviews import Item, Review

BODY = '{"resume": [{"interruptId": …, "status": "resolved" or "cancelled", "payload"?: …}]}'
ENTRY = '{"interruptId": …, "status": "resolved" or "cancelled", "payload"?: …}'
PAYLOAD = '{"approved": true or false, "editedArgs"?: {…}, "message"?: …} or {"response": …}'
EDITED = "'editedArgs' must be an object: it replaces all arguments"


class AgUi:
    name = "ag-ui"

    def read(self, body: Any, review: Review) -> list[Answer]:
        entries = read_entries(body, "resume", BODY)
        return [_answer(f"resume[{place}]", raw, review) for place, raw in enumerate(entries)]

    def write(self, view: Mapping[str, Any]) -> dict[str, Any]:
        """The outcome of a run that ended with the open items of this review."""
        pairs = zip(view["items"], view["review_configs"], strict=True)
        interrupts = [_interrupt(view, item, config) for item, config in pairs if item["status"] == "open"]
        return {"type": "interrupt", "interrupts": interrupts}


def _answer(where: str, raw: Any, review: Review) -> Answer:
    entry = read_object(where, raw, ("interruptId", "status", "payload", "metadata"), ENTRY)
    status = read_word(where, "status", entry.get("status"), ("resolved", "cancelled"))
    if not isinstance(entry.get("metadata", {}), dict):
        raise InvalidRequest(f"{where}: 'metadata' must be an object")
    item = _item(where, entry.get("interruptId"), review)
    if status == "resolved":
        return _resolved(f"{where}.payload", entry.get("payload"), item)
    if entry.get("payload") is not None:
        raise InvalidRequest(f"{where}: a cancelled entry has no 'payload'")
    return Answer(DecisionType.reject, item_id=item.id, then=NextStep.stop)


def _item(where: str, value: Any, review: Review) -> Item:
    named = read_id(where, "interruptId", value)
    if named == review.id:
        return only_item(review, f"{where}: 'interruptId' must be the id of one of them")
    return item_of(review, where, named)


def _resolved(where: str, payload: Any, item: Item) -> Answer:
    if isinstance(payload, dict) and "response" in payload:
        read_object(where, payload, ("response",), PAYLOAD)
        message = read_needed_text(where, "response", payload["response"])
        return Answer(DecisionType.respond, item_id=item.id, message=message)
    read_object(where, payload, ("approved", "editedArgs", "message"), PAYLOAD)
    return _judged(where, payload, item)


def _judged(where: str, payload: Mapping[str, Any], item: Item) -> Answer:
    approved = read_bool(where, "approved", payload.get("approved"))
    message = read_text(where, "message", payload.get("message"))
    edited = payload.get("editedArgs")
    if not approved and edited is not None:
        raise InvalidRequest(f"{where}: 'editedArgs' goes with \"approved\": true")
    if edited is not None:
        args = check_arguments(where, edited, EDITED)
        return Answer(DecisionType.edit, item_id=item.id, edited_name=item.tool, edited_args=args, message=message)
    if approved and message:
        raise InvalidRequest(f"{where}: a 'message' goes with a refusal or an edit; nobody would read it")
    return Answer(DecisionType.approve if approved else DecisionType.reject, item_id=item.id, message=message)


def _interrupt(view: Mapping[str, Any], item: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    expires = {} if view["deadline_at"] is None else {"expiresAt": view["deadline_at"]}
    call = {key: item[key] for key in ("tool", "args", "unreadable_args")}
    return {
        "id": item["item_id"],
        "reason": "tool_call",
        "message": item["description"],
        "toolCallId": item["tool_call_id"],
        "responseSchema": _response_schema(config),
        "metadata": {"signoff": {"review_id": view["review_id"], **call}},
        **expires,
    }


def _response_schema(config: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", **config["args_schema"]}
    # References of the tool's schema start at the root, which is the payload's from here on.
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    forms = _forms(schema)
    return {"anyOf": [forms[DecisionType(word)] for word in config["allowed_decisions"]], **definitions}


def _forms(args_schema: Mapping[str, Any]) -> dict[DecisionType, dict[str, Any]]:
    approved, refused, text = {"const": True}, {"const": False}, {"type": "string"}
    return {
        DecisionType.approve: _form(["approved"], approved=approved),
        DecisionType.edit: _form(["approved", "editedArgs"], approved=approved, editedArgs=args_schema, message=text),
        DecisionType.reject: _form(["approved"], approved=refused, message=text),
        DecisionType.respond: _form(["response"], response={**text, "minLength": 1}),
    }


def _form(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
