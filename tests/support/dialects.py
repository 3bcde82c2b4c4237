"""A review of two items, with ids that golden files can name, and its forms in every dialect."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from signoff.domain.canonical import call_digest
from signoff.domain.decisions import Answer
from signoff.domain.dialects import DIALECTS, Dialect
from signoff.domain.policy import DecisionType
from signoff.domain.review_view import review_view
from signoff.domain.reviews import Item, ItemStatus, Review, ReviewStatus

GOLDEN = Path(__file__).parents[1] / "golden" / "dialects"
REVIEW_ID = UUID("00000000-0000-4000-8000-000000000001")
DEADLINE = datetime(2026, 5, 1, 12, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "integer"},
        "rate": {"type": "number"},
        "urgent": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "code": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "customer": {"$ref": "#/$defs/Customer"},
    },
    "$defs": {"Customer": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    "required": ["order", "amount"],
}


def dialect(name: str) -> Dialect:
    (found,) = [one for one in DIALECTS if one.name == name]
    return found


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def an_item(number: int, **changes: Any) -> Item:
    args = {"order": f"A-{number}", "amount": 30, "note": None}
    whole = {
        "id": UUID(f"00000000-0000-4000-8000-0000000000{number}0"),
        "ordinal": number - 1,
        "status": ItemStatus.open,
        "operation_id": f"op_{number}",
        "message_id": "m-1",
        "call_ordinal": number - 1,
        "edits": 0,
        "tool_call_id": f"call-{number}",
        "tool": "refund",
        "args": args,
        "unreadable_args": None,
        "digest": call_digest("refund", args),
        "description": "A refund",
        "rule": "refunds",
        "reason": "'refunds' says review",
        "allowed_decisions": tuple(DecisionType),
        "reviewers": ("finance",),
        "args_schema": SCHEMA,
        "deadline_at": DEADLINE,
        "approval_valid_for_seconds": None,
    }
    return Item(**{**whole, **changes})


def a_review(*items: Item) -> Review:
    job_id = UUID("00000000-0000-4000-8000-000000000002")
    return Review(REVIEW_ID, job_id, "thread-1", "interrupt-1", ReviewStatus.pending, items)


def one_item(**changes: Any) -> Review:
    return a_review(an_item(1, **changes))


def two_items() -> Review:
    """The second is a call whose arguments can't be read, and may only be approved or rejected."""
    odd = {"args": None, "unreadable_args": '{"order": ', "description": "A broken refund"}
    few = (DecisionType.approve, DecisionType.reject)
    return a_review(an_item(1), an_item(2, **odd, allowed_decisions=few, args_schema=None))


def shown(name: str, review: Review) -> Any:
    return dialect(name).write(review_view(review, agent="desk", deadline_at=DEADLINE))


def plain(answer: Answer) -> dict[str, Any]:
    """The answer as JSON, without what is None."""
    found = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return {key: str(value) if isinstance(value, UUID) else value for key, value in found.items() if value is not None}
