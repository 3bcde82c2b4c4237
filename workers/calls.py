"""A judged call as the graph's state holds it: JSON scalars, lists and objects only, so that any checkpoint can."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


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
    # None, or missing in what an earlier version has judged, where there is nothing to say.
    terms: NotRequired[dict[str, Any] | None]
    shown: NotRequired[dict[str, Any] | None]
    unseen: NotRequired[dict[str, Any] | None]
    # What the tool is given from the run's state: only on the way to the executor.
    given: NotRequired[dict[str, Any]]
