"""A review as the world sees it: our own fields, and LangChain's `action_requests` and `review_configs` beside them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signoff.domain.hiding import MASK, masked, paths_of
from signoff.domain.reviews import Decision, Item, Review


def review_view(
    review: Review, *, agent: str, deadline_at: datetime | None, reveal: bool = False, **times: Any
) -> dict[str, Any]:
    """All that a reviewer's program needs to decide. Times are ISO 8601 in UTC.

    Arguments that a rule hides are masked unless `reveal`.
    """
    return {
        "review_id": str(review.id),
        "job_id": str(review.job_id),
        "thread_id": review.thread_id,
        "agent": agent,
        "status": str(review.status),
        "deadline_at": None if deadline_at is None else deadline_at.isoformat(),
        "claimed_by": review.claimed_by,
        "claimed_until": None if review.claimed_until is None else review.claimed_until.isoformat(),
        "decide": f"/v1/reviews/{review.id}/decisions",
        "action_requests": [_action_request(item, reveal) for item in review.items],
        "review_configs": [_review_config(item) for item in review.items],
        "items": [item_view(item, reveal=reveal) for item in review.items],
        **times,
    }


def item_view(item: Item, *, reveal: bool = False) -> dict[str, Any]:
    """The item in its current revision; `proposed` is what the agent asked for, where it has been amended since."""
    return {
        "item_id": str(item.id),
        "status": str(item.status),
        "tool_call_id": item.tool_call_id,
        "operation_id": item.operation_id,
        "tool": item.tool,
        "args": _shown_args(item, item.args, reveal),
        "unreadable_args": _unreadable(item, reveal),
        "hidden": list(paths_of(item.args or {}, item.terms.hidden)),
        "shown": item.shown,
        "digest": _shown_digest(item, item.args, item.digest, reveal),
        "revision": item.revision,
        "proposed": _proposed(item, reveal),
        "description": item.description,
        "rule": item.rule,
        "reason": item.reason,
        "allowed_decisions": [str(word) for word in item.allowed_decisions],
        "reviewers": list(item.may_decide),
        "assigned_to": list(item.assigned_to),
        "approvals": {"needed": item.terms.approvals, "given": len(item.voices)},
        "decisions": [_decision_view(item, one, reveal) for one in item.decisions],
        "decision": None if item.decision is None else _decision_view(item, item.decision, reveal),
    }


def _decision_view(item: Item, decision: Decision, reveal: bool) -> dict[str, Any]:
    step = None if decision.next_step is None else str(decision.next_step)
    return {
        **decision.brief(),
        "revision": decision.revision,
        "tool": decision.tool,
        "args": _shown_args(item, decision.args, reveal),
        "message": decision.message,
        "then": step,
    }


def _proposed(item: Item, reveal: bool) -> dict[str, Any] | None:
    proposed = item.proposed
    if proposed is None:
        return None
    return {
        "tool": proposed.tool,
        "args": _shown_args(item, proposed.args, reveal),
        "digest": _shown_digest(item, proposed.args, proposed.digest, reveal),
        "amended_by": proposed.amended_by,
    }


def _action_request(item: Item, reveal: bool) -> dict[str, Any]:
    return {"name": item.tool, "args": _shown_args(item, item.args, reveal) or {}, "description": item.description}


def _review_config(item: Item) -> dict[str, Any]:
    words = [str(word) for word in item.allowed_decisions]
    return {"action_name": item.tool, "allowed_decisions": words, "args_schema": dict(item.args_schema or {})}


def _shown_digest(item: Item, args: Mapping[str, Any] | None, digest: str, reveal: bool) -> str | None:
    """No digest of hidden values: with the rest in view, a short one could be guessed by it."""
    concealed = item.terms.hidden and (args is None or paths_of(args, item.terms.hidden))
    return None if concealed and not reveal else digest


def _unreadable(item: Item, reveal: bool) -> str | None:
    """The text as it was written, or nothing of it: in what can't be read no single value can be masked."""
    concealed = item.unreadable_args is not None and item.terms.hidden and not reveal
    return MASK if concealed else item.unreadable_args


def _shown_args(item: Item, args: Mapping[str, Any] | None, reveal: bool) -> dict[str, Any] | None:
    if args is None:
        return None
    return dict(args) if reveal else masked(args, item.terms.hidden)
