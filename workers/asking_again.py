"""The pause of a call that was allowed, and has to go back to review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from signoff.domain.policy import Judgement
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.verdicts import AtDeadline, DecisionType
from signoff.workers.approving import ReviewAgain
from signoff.workers.calls import Call


def ask_again(call: Call, answer: ReviewAgain) -> dict[str, Any]:
    """What a review of the call is to say in place of what the gate said of it."""
    judgement = answer.judgement
    again = {
        "rule": judgement.rule,
        "reason": answer.reason,
        "reviewers": list(judgement.reviewers),
        "decisions": _decisions(judgement),
        "deadline_seconds": judgement.deadline_seconds,
        "approval_valid_for_seconds": judgement.approval_valid_for_seconds,
        # The gate's own words may tell what the rule hides by now.
        "description": judgement.description or f"{call['tool']} needs a decision",
        "terms": _terms(call, answer).to_dict(),
        "shown": dict(judgement.shown) or None,
    }
    return _pause(call["operation_id"], judgement.policy_digest, again)


def still_asked(operation_id: str, policy_digest: str) -> dict[str, Any]:
    """The pause of a call whose review is open: nothing new is said of it."""
    return _pause(operation_id, policy_digest, {})


def _pause(operation_id: str, policy_digest: str, again: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "review", "operations": [operation_id], "policy_digest": policy_digest, "again": again}


def _decisions(judgement: Judgement) -> list[str]:
    """Yes or no: the call is what it is by now, and its result is not for a reviewer to write."""
    asked = [word for word in (DecisionType.approve, DecisionType.reject) if word in judgement.decisions]
    return [str(word) for word in asked or (DecisionType.reject,)]


def _terms(call: Call, answer: ReviewAgain) -> ReviewTerms:
    """As the rule says, but what went back is never approved by time, nor changed any more, and hides what it hid."""
    terms = ReviewTerms.of(answer.judgement)
    hidden = dict.fromkeys((*ReviewTerms.from_dict(call.get("terms")).hidden, *terms.hidden))
    in_time = AtDeadline.reject if terms.at_deadline is AtDeadline.approve else terms.at_deadline
    return replace(terms, approvals=answer.approvals, hidden=tuple(hidden), at_deadline=in_time, tool_changes=())
