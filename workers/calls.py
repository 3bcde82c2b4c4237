"""A judged call as the graph's state holds it: JSON scalars, lists and objects only, so that any checkpoint can."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Call(TypedDict):
    operation_id: str
    message_id: str
    ordinal: int
    edits: int
    tool_call_id: str
    tool: str
    args: dict[str, Any] | None
    unreadable_args: str | None
    digest: str
    verdict: Literal["allow", "review", "approved", "closed"]
    rule: str
    reason: str
    policy_digest: str
    decisions: list[str]
    reviewers: list[str]
    deadline_seconds: float | None
    approval_valid_for_seconds: float | None
    description: str
    edited: bool
