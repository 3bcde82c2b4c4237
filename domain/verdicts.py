"""The words of a policy: what a rule can answer, and what a reviewer can."""

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
