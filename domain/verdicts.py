"""The words of a policy: what a rule can answer, what a reviewer can, and what happens when nobody does."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    allow = "allow"
    review = "review"
    deny = "deny"


class DecisionType(StrEnum):
    approve = "approve"
    edit = "edit"
    reject = "reject"
    respond = "respond"


class AtDeadline(StrEnum):
    """What becomes of a call that nobody decided in time; `approve` is for tools of class `read` alone."""

    reject = "reject"
    escalate = "escalate"
    fail = "fail"
    approve = "approve"
