"""One rule of a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from signoff.domain.policy_checks import RULE_KEYS, Problem, raise_problems, rule_problems, unknown_keys
from signoff.domain.verdicts import DecisionType, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern over tool names, a condition (CEL) if one is needed, and what then holds.

    `reviewers` are groups. On a rule that allows or denies they are who is asked if the condition can't be evaluated.
    `description` is read by the reviewer. Raises PolicyInvalid with all that is wrong.
    """

    tool: str
    verdict: Verdict
    name: str | None = None
    when: str | None = None
    decisions: tuple[DecisionType, ...] = tuple(DecisionType)
    reviewers: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    approval_valid_for_seconds: float | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        raise_problems(described(problem, self.raw()) for problem in rule_problems(self.raw(), 0))
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        object.__setattr__(self, "decisions", tuple(DecisionType(word) for word in self.decisions))
        object.__setattr__(self, "reviewers", tuple(self.reviewers))
        for key in ("deadline_seconds", "approval_valid_for_seconds"):
            value = getattr(self, key)
            object.__setattr__(self, key, None if value is None else float(value))

    def raw(self) -> dict[str, Any]:
        """What was set, and nothing that was left at its default."""
        values = {key: getattr(self, key) for key in RULE_KEYS}
        if values["decisions"] == tuple(DecisionType):
            del values["decisions"]
        if values["reviewers"] == () and self.verdict != Verdict.review:
            del values["reviewers"]
        return {key: value for key, value in values.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """JSON types alone; what a later version may take as default is written out."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in self.raw().items()}
        return {**plain, "decisions": [str(word) for word in self.decisions], "verdict": str(self.verdict)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. Raises PolicyInvalid."""
        raise_problems(described(problem, raw) for problem in unknown_keys(raw, RULE_KEYS, 0))
        return cls(**raw)


def described(problem: Problem, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The problem of a rule whose position is not known."""
    return {"where": f"the rule for {raw.get('tool')!r}", "message": problem.message}


def allow(
    tool: str,
    *,
    when: str | None = None,
    name: str | None = None,
    reviewers: Sequence[str] = (),
    description: str | None = None,
) -> Rule:
    """Calls run without asking. `reviewers` are asked if `when` can't be evaluated."""
    return Rule(
        tool=tool, verdict=Verdict.allow, when=when, name=name, reviewers=_tuple(reviewers), description=description
    )


def deny(
    tool: str,
    *,
    when: str | None = None,
    name: str | None = None,
    reviewers: Sequence[str] = (),
    description: str | None = None,
) -> Rule:
    """Calls never run. `reviewers` are asked if `when` can't be evaluated."""
    return Rule(
        tool=tool, verdict=Verdict.deny, when=when, name=name, reviewers=_tuple(reviewers), description=description
    )


def review(
    tool: str,
    *,
    reviewers: Sequence[str],
    when: str | None = None,
    name: str | None = None,
    decisions: Sequence[DecisionType | str] = tuple(DecisionType),
    deadline_seconds: float | None = None,
    approval_valid_for_seconds: float | None = None,
    description: str | None = None,
) -> Rule:
    """Calls wait for a decision of somebody in one of the groups."""
    return Rule(
        tool=tool,
        verdict=Verdict.review,
        when=when,
        name=name,
        decisions=_tuple(decisions),
        reviewers=_tuple(reviewers),
        deadline_seconds=deadline_seconds,
        approval_valid_for_seconds=approval_valid_for_seconds,
        description=description,
    )


def _tuple(words: Sequence[Any]) -> tuple[Any, ...]:
    # One word is left as it is, so that the rule refuses it: tuple("finance") would be seven groups.
    return words if isinstance(words, str) else tuple(words)  # type: ignore[return-value]
