"""A review as the world sees it: our own fields, and LangChain's `action_requests` and `review_configs` beside them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from signoff.domain.reviews import Item, Review


def review_view(review: Review, *, agent: str, deadline_at: datetime | None, **times: Any) -> dict[str, Any]:
    """All that a reviewer's program needs to decide. Times are ISO 8601 in UTC."""
    return {
        "review_id": str(review.id),
        "job_id": str(review.job_id),
        "thread_id": review.thread_id,
        "agent": agent,
        "status": str(review.status),
        "deadline_at": None if deadline_at is None else deadline_at.isoformat(),
        "decide": f"/v1/reviews/{review.id}/decisions",
        "action_requests": [_action_request(item) for item in review.items],
        "review_configs": [_review_config(item) for item in review.items],
        "items": [item_view(item) for item in review.items],
        **times,
    }


def item_view(item: Item) -> dict[str, Any]:
    return {
        "item_id": str(item.id),
        "status": str(item.status),
        "tool_call_id": item.tool_call_id,
        "operation_id": item.operation_id,
        "tool": item.tool,
        "args": item.args,
        "unreadable_args": item.unreadable_args,
        "digest": item.digest,
        "description": item.description,
        "rule": item.rule,
        "reason": item.reason,
        "allowed_decisions": [str(word) for word in item.allowed_decisions],
        "reviewers": list(item.reviewers),
        "decision": _decision_view(item),
    }


def _decision_view(item: Item) -> dict[str, Any] | None:
    decision = item.decision
    if decision is None:
        return None
    step = None if decision.next_step is None else str(decision.next_step)
    return {**decision.brief(), "args": decision.args, "message": decision.message, "then": step}


def _action_request(item: Item) -> dict[str, Any]:
    return {"name": item.tool, "args": dict(item.args or {}), "description": item.description}


def _review_config(item: Item) -> dict[str, Any]:
    words = [str(word) for word in item.allowed_decisions]
    return {"action_name": item.tool, "allowed_decisions": words, "args_schema": dict(item.args_schema or {})}
