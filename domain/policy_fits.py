"""What can be wrong with the values of one rule together, in its plain form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from signoff.domain.policy_values import is_seconds, words
from signoff.domain.verdicts import AtDeadline, DecisionType, Verdict

Found = Iterator[tuple[str | None, str]]
"""The key, and the problem."""

# What hides arguments is of use for calls that nobody is asked about, too.
ASKING = (
    "reviewers",
    "decisions",
    "approvals",
    "deadline_seconds",
    "reminders_seconds",
    "escalation",
    "at_deadline",
    "escalate_to",
    "approval_valid_for_seconds",
    "show",
    "tool_changes",
    "edits_need_another",
)


def fitting_problems(raw: Mapping[str, Any]) -> Found:
    """Settings that can't take effect, or contradict each other."""
    verdict = raw.get("verdict")
    if verdict == Verdict.review and "reviewers" not in raw:
        yield None, "reviewers: a review needs at least one group"
    if verdict in (Verdict.allow, Verdict.deny) and "when" not in raw:
        yield from _nobody_asked(raw)
        return
    yield from _too_few_people(raw)
    yield from _without_their_decision(raw)
    yield from _ladder(raw)
    yield from _at_deadline(raw)


def _nobody_asked(raw: Mapping[str, Any]) -> Found:
    for key in ASKING:
        # The plain form writes out the default.
        if key in raw and raw[key] != list(DecisionType):
            verdict = str(raw["verdict"])
            yield key, f"{key}: nobody is ever asked, as the verdict is {verdict!r} and there is no condition"


def _approvals(raw: Mapping[str, Any]) -> int:
    value = raw.get("approvals", 1)
    return value if isinstance(value, int) else 1


def _too_few_people(raw: Mapping[str, Any]) -> Found:
    asked, needed = words(raw.get("reviewers")), _approvals(raw)
    if asked and all(word.startswith("@") for word in asked) and len(set(asked)) < needed:
        yield "approvals", f"approvals: {needed} are needed, and the reviewers are {len(set(asked))} alone"


def _without_their_decision(raw: Mapping[str, Any]) -> Found:
    decisions = words(raw.get("decisions", list(DecisionType)))
    for key in ("tool_changes", "edits_need_another"):
        if raw.get(key) and DecisionType.edit not in decisions:
            yield key, f"{key}: nobody can edit, as 'edit' is not among the decisions"
    if _approvals(raw) > 1 and not {DecisionType.approve, DecisionType.edit} & set(decisions):
        yield "approvals", "approvals: nobody can approve, as neither 'approve' nor 'edit' is among the decisions"


def _ladder(raw: Mapping[str, Any]) -> Found:
    escalation = raw.get("escalation")
    rungs = escalation if isinstance(escalation, (list, tuple)) else ()
    after = [rung.get("after_seconds") for rung in rungs if isinstance(rung, Mapping)]
    yield from _times("reminders_seconds", raw.get("reminders_seconds"), raw)
    yield from _times("escalation", after, raw)


def _times(key: str, values: object, raw: Mapping[str, Any]) -> Found:
    times = [value for value in values if is_seconds(value)] if isinstance(values, (list, tuple)) else []
    deadline = raw.get("deadline_seconds")
    if times != sorted(set(times)):
        yield key, f"{key}: the times are not in order, each later than the one before"
    if is_seconds(deadline) and times and max(times) >= deadline:
        yield key, f"{key}: the last comes when the deadline has passed, and so never"


def _at_deadline(raw: Mapping[str, Any]) -> Found:
    then = raw.get("at_deadline", AtDeadline.reject)
    if "at_deadline" in raw and "deadline_seconds" not in raw:
        yield "at_deadline", "at_deadline: there is no deadline"
    if then == AtDeadline.escalate and "escalate_to" not in raw:
        yield "at_deadline", "at_deadline: to whom? Name the reviewers in escalate_to"
    if then != AtDeadline.escalate and "escalate_to" in raw:
        yield "escalate_to", "escalate_to: these are never asked, as at_deadline is not 'escalate'"
    if then == AtDeadline.approve and _approvals(raw) > 1:
        yield "at_deadline", "at_deadline: time alone can't approve what needs several people"
    if then == AtDeadline.approve and DecisionType.approve not in words(raw.get("decisions", list(DecisionType))):
        yield "at_deadline", "at_deadline: 'approve' is not among the decisions"
