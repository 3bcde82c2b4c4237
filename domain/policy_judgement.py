"""What a policy says of one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from signoff.domain.canonical import canonical_json
from signoff.domain.errors import UnreadableArguments
from signoff.domain.hiding import masked
from signoff.domain.ladders import Rung, ladder
from signoff.domain.policy_facts import look_up
from signoff.domain.rules import Rule
from signoff.domain.templates import filled
from signoff.domain.verdicts import AtDeadline, DecisionType, Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy says of one call, by which rule and why. `reviewers` are those to ask if it is a review.

    `hidden` are paths into the arguments; `description` and `shown` hold nothing of what they hide. `escalate_to` are
    those who are asked when the deadline has passed, if `at_deadline` says so. `high_risk`: what one operator finds out
    about an effect of the call, another has to confirm. Not `evaluated`: a review because some condition, perhaps of a
    rule that denies, has no answer anywhere.
    """

    verdict: Verdict
    rule: str
    policy_digest: str
    reason: str
    decisions: tuple[DecisionType, ...] = tuple(DecisionType)
    reviewers: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    approval_valid_for_seconds: float | None = None
    description: str | None = None
    approvals: int = 1
    hidden: tuple[str, ...] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    ladder: tuple[Rung, ...] = ()
    at_deadline: AtDeadline = AtDeadline.reject
    escalate_to: tuple[str, ...] = ()
    tool_changes: tuple[str, ...] = ()
    edits_need_another: bool = False
    high_risk: bool = False
    evaluated: bool = True

    @property
    def all_reviewers(self) -> tuple[str, ...]:
        """Everybody who is asked sooner or later, each once."""
        later = (word for rung in self.ladder for word in rung.reviewers)
        return tuple(dict.fromkeys([*self.reviewers, *later, *self.escalate_to]))


def told(rule: Rule, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The `description` and `shown` of a rule for these facts, which may be any at all; what is hidden is masked."""
    seen = {**facts, "args": masked(facts["args"], rule.hide)} if rule.hide else facts
    return {
        "description": None if rule.description is None else filled(rule.description, seen),
        "shown": {path: _showable(look_up(seen, path)) for path in rule.show},
    }


def settings(rule: Rule) -> dict[str, Any]:
    """What a rule says of a review whatever the call, as fields of a Judgement."""
    return {
        "decisions": rule.decisions,
        "deadline_seconds": rule.deadline_seconds,
        "approval_valid_for_seconds": rule.approval_valid_for_seconds,
        "approvals": rule.approvals,
        "hidden": rule.hide,
        "ladder": ladder(rule.reminders_seconds, rule.escalation),
        "at_deadline": rule.at_deadline,
        "escalate_to": rule.escalate_to,
        "tool_changes": rule.tool_changes,
        "edits_need_another": rule.edits_need_another,
        "high_risk": rule.high_risk,
    }


def _showable(value: Any) -> Any:
    try:
        canonical_json(value)
    except UnreadableArguments as error:
        return f"(can't be shown: {error.message})"
    return value
