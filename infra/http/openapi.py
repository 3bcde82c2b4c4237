"""What the OpenAPI document says beside what the handlers' signatures do."""

from __future__ import annotations

from typing import Any

from signoff.domain.jobs import MAX_INPUT_CHARACTERS, MAX_LABELS, MAX_NAME_CHARACTERS
from signoff.infra.http.problems import MEDIA_TYPE

PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
    },
}

MEANINGS = {
    400: "The body is not strict JSON",
    401: "Who asks is not known",
    403: "Who asks may not do this",
    404: "Not there, or not for who asks",
    409: "Right in form, but not now",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "The request is wrong; nothing was changed",
    429: "Too many requests; nothing was changed",
    503: "Something that is needed is away; try again",
}

_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
_REASON = {"type": "string", "minLength": 1, "maxLength": 2000}

SUBMIT = {
    "type": "object",
    "required": ["agent", "input"],
    "additionalProperties": False,
    "properties": {
        "agent": _NAME,
        "input": {"type": "string", "minLength": 1, "maxLength": MAX_INPUT_CHARACTERS},
        "thread_id": {**_NAME, "type": ["string", "null"]},
        "labels": {
            "type": ["object", "null"],
            "maxProperties": MAX_LABELS,
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 1000},
        },
        "idempotency_key": {**_NAME, "type": ["string", "null"]},
        "cancel_pending": {"type": "boolean", "default": False},
    },
}

DECISION = {
    "type": "object",
    "required": ["type"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["approve", "edit", "reject", "respond"]},
        "item_id": {"type": ["string", "null"], "format": "uuid"},
        "tool_call_id": {"type": ["string", "null"]},
        "edited_action": {
            "type": "object",
            "required": ["name", "args"],
            "additionalProperties": False,
            "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
        },
        "message": {"type": ["string", "null"]},
        "then": {"enum": ["stop", "ask", "revise", None]},
        "revision": {"type": ["integer", "null"], "minimum": 1},
        "digest": {"type": ["string", "null"]},
    },
}
_DECISIONS = {"type": "array", "minItems": 1, "items": DECISION}

DECIDE = {
    "type": "object",
    "required": ["decisions"],
    "additionalProperties": False,
    "properties": {"decisions": _DECISIONS},
}
_OF_REVIEW = {"review_id": {"type": "string", "format": "uuid"}, "reviewer": _NAME}
ENVELOPE = {
    "anyOf": [
        {
            "type": "object",
            "required": ["review_id", "reviewer", "decisions"],
            "additionalProperties": False,
            "properties": {**_OF_REVIEW, "decisions": _DECISIONS},
        },
        {
            "type": "object",
            "required": ["review_id", "reviewer", "answer"],
            "additionalProperties": False,
            "properties": {**_OF_REVIEW, "dialect": {"type": "string"}, "answer": {}},
        },
    ]
}
REPLAY = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": _REASON},
}
RESOLVE = {
    "type": "object",
    "required": ["reason", "finding"],
    "additionalProperties": False,
    "properties": {
        "reason": _REASON,
        "finding": {"enum": ["applied", "not_applied"]},
        "reference": {"type": ["string", "null"], "maxLength": MAX_NAME_CHARACTERS},
        "result": {"type": ["string", "null"]},
    },
}
SKIP = {
    "type": "object",
    "required": ["reason", "substitute"],
    "additionalProperties": False,
    "properties": {"reason": _REASON, "substitute": {"type": "string", "minLength": 1}},
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for its `responses`."""
    return {
        status: {"description": MEANINGS[status], "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}}}
        for status in statuses
    }


def body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The request body of a route that reads it by itself, for its `openapi_extra`."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def headers(**described: str) -> list[dict[str, Any]]:
    """Optional request headers, for the parameters of `openapi_extra`; `_` in a name stands for the hyphen."""
    return [
        {
            "name": name.replace("_", "-"),
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": text,
        }
        for name, text in described.items()
    ]


READ = problems(401, 404, 422, 429, 503)
LIST = problems(401, 422, 429, 503)
WRITE = problems(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)
