"""One rule of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from signoff.domain.ladders import Rung
from signoff.domain.policy_callables import Elsewhere, Predicate, elsewhere
from signoff.domain.policy_checks import Problem, raise_problems, rule_problems, unknown_keys
from signoff.domain.policy_values import RULE_KEYS
from signoff.domain.verdicts import AtDeadline, DecisionType, Verdict

_DEFAULTS: Mapping[str, Any] = {
    "approvals": 1,
    "reminders_seconds": (),
    "escalation": (),
    "at_deadline": AtDeadline.reject,
    "escalate_to": (),
    "hide": (),
    "show": (),
    "tool_changes": (),
    "edits_need_another": False,
    "high_risk": False,
}
_TEXTS = ("reviewers", "escalate_to", "hide", "show", "tool_changes")
_SECONDS = ("deadline_seconds", "approval_valid_for_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern over tool names, a condition (CEL, or a callable) if one is needed, and what then holds.

    `reviewers` are groups, and people written `@name`; `approvals` says how many different people must approve. On a
    rule that allows or denies they are who is asked if the condition can't be evaluated.
    `description` is read by the reviewer and may name facts of the call: `Refund {args.amount}`. `hide` are paths into
    the arguments, `show` facts that the reviewer sees beside the call, `tool_changes` patterns of tools that an edit
    may change to. `high_risk`: two operators settle an effect of such a call. Raises PolicyInvalid with all that is
    wrong.
    """

    tool: str
    verdict: Verdict
    name: str | None = None
    when: str | Predicate | Elsewhere | None = None
    decisions: tuple[DecisionType, ...] = tuple(DecisionType)
    reviewers: tuple[str, ...] = ()
    approvals: int = 1
    deadline_seconds: float | None = None
    reminders_seconds: tuple[float, ...] = ()
    escalation: tuple[Rung, ...] = ()
    at_deadline: AtDeadline = AtDeadline.reject
    escalate_to: tuple[str, ...] = ()
    approval_valid_for_seconds: float | None = None
    description: str | None = None
    hide: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    tool_changes: tuple[str, ...] = ()
    edits_need_another: bool = False
    high_risk: bool = False

    def __post_init__(self) -> None:
        raise_problems(described(problem, self.raw()) for problem in rule_problems(self.raw(), 0))
        for key, value in self._clean().items():
            object.__setattr__(self, key, value)

    def _clean(self) -> dict[str, Any]:
        """The values in their types, whatever form of them was given."""
        when = Elsewhere(**self.when) if isinstance(self.when, Mapping) else self.when
        seconds = {key: None if (value := getattr(self, key)) is None else float(value) for key in _SECONDS}
        return {
            "verdict": Verdict(self.verdict),
            "when": when,
            "decisions": tuple(DecisionType(word) for word in self.decisions),
            "reminders_seconds": tuple(float(value) for value in self.reminders_seconds),
            "escalation": tuple(Rung.from_dict(rung) for rung in self.raw().get("escalation", ())),
            "at_deadline": AtDeadline(self.at_deadline),
            **{key: tuple(getattr(self, key)) for key in _TEXTS},
            **seconds,
        }

    def raw(self) -> dict[str, Any]:
        """What was set, and nothing that was left at its default."""
        values = {key: value for key in RULE_KEYS if (value := getattr(self, key)) is not None}
        if values["decisions"] == tuple(DecisionType):
            del values["decisions"]
        if values["reviewers"] == () and self.verdict != Verdict.review:
            del values["reviewers"]
        for key, default in _DEFAULTS.items():
            if type(values[key]) is type(default) and values[key] == default:
                del values[key]
        if isinstance(self.escalation, (list, tuple)) and self.escalation:
            values["escalation"] = [_raw_rung(rung) for rung in self.escalation]
        return values

    def to_dict(self) -> dict[str, Any]:
        """JSON types alone; what a later version may take as default is written out."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in self.raw().items()}
        if self.when is not None and not isinstance(self.when, str):
            plain["when"] = elsewhere(self.when).to_dict()
        if self.escalation:
            plain["escalation"] = [rung.to_dict() for rung in self.escalation]
        if "at_deadline" in plain:
            plain["at_deadline"] = str(self.at_deadline)
        return {**plain, "decisions": [str(word) for word in self.decisions], "verdict": str(self.verdict)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. Raises PolicyInvalid."""
        raise_problems(described(problem, raw) for problem in unknown_keys(raw, RULE_KEYS, 0))
        return cls(**raw)


def _raw_rung(rung: object) -> object:
    # Its reviewers as they were given, for the check: a list made of one word would be of letters.
    return {**rung.to_dict(), "reviewers": rung.reviewers} if isinstance(rung, Rung) else rung


def described(problem: Problem, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The problem of a rule whose position is not known."""
    return {"where": f"the rule for {raw.get('tool')!r}", "message": problem.message}


def allow(
    tool: str,
    *,
    when: str | Predicate | None = None,
    name: str | None = None,
    reviewers: Sequence[str] = (),
    description: str | None = None,
    hide: Sequence[str] = (),
    high_risk: bool = False,
) -> Rule:
    """Calls run without asking. `reviewers` are asked if `when` can't be evaluated."""
    return _unasked(Verdict.allow, tool, when, name, reviewers, description, hide, high_risk)


def deny(
    tool: str,
    *,
    when: str | Predicate | None = None,
    name: str | None = None,
    reviewers: Sequence[str] = (),
    description: str | None = None,
    hide: Sequence[str] = (),
    high_risk: bool = False,
) -> Rule:
    """Calls never run. `reviewers` are asked if `when` can't be evaluated."""
    return _unasked(Verdict.deny, tool, when, name, reviewers, description, hide, high_risk)


def review(
    tool: str,
    *,
    reviewers: Sequence[str],
    when: str | Predicate | None = None,
    name: str | None = None,
    decisions: Sequence[DecisionType | str] = tuple(DecisionType),
    approvals: int = 1,
    deadline_seconds: float | None = None,
    reminders_seconds: Sequence[float] = (),
    escalation: Sequence[Rung] = (),
    at_deadline: AtDeadline | str = AtDeadline.reject,
    escalate_to: Sequence[str] = (),
    approval_valid_for_seconds: float | None = None,
    description: str | None = None,
    hide: Sequence[str] = (),
    show: Sequence[str] = (),
    tool_changes: Sequence[str] = (),
    edits_need_another: bool = False,
    high_risk: bool = False,
) -> Rule:
    """Calls wait until `approvals` people, of the groups or named as `@name`, approve; one who rejects ends it."""
    return Rule(
        tool=tool,
        verdict=Verdict.review,
        when=when,
        name=name,
        decisions=_tuple(decisions),
        reviewers=_tuple(reviewers),
        approvals=approvals,
        deadline_seconds=deadline_seconds,
        reminders_seconds=_tuple(reminders_seconds),
        escalation=_tuple(escalation),
        at_deadline=at_deadline,  # type: ignore[arg-type]  # a word is made one, or refused
        escalate_to=_tuple(escalate_to),
        approval_valid_for_seconds=approval_valid_for_seconds,
        description=description,
        hide=_tuple(hide),
        show=_tuple(show),
        tool_changes=_tuple(tool_changes),
        edits_need_another=edits_need_another,
        high_risk=high_risk,
    )


def _unasked(
    verdict: Verdict,
    tool: str,
    when: str | Predicate | None,
    name: str | None,
    reviewers: Sequence[str],
    description: str | None,
    hide: Sequence[str],
    high_risk: bool,
) -> Rule:
    return Rule(
        tool=tool,
        verdict=verdict,
        when=when,
        name=name,
        reviewers=_tuple(reviewers),
        description=description,
        hide=_tuple(hide),
        high_risk=high_risk,
    )


def _tuple(words: Sequence[Any]) -> tuple[Any, ...]:
    # What is no list is left as it is, so that the rule refuses it: tuple("finance") would be seven groups.
    return tuple(words) if isinstance(words, Iterable) and not isinstance(words, str) else words  # type: ignore[return-value]
