"""A policy: rules in order, of which the first that matches a call decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from signoff.domain.canonical import canonical_json
from signoff.domain.conditions import CannotEvaluate, Condition, Facts, compile_condition
from signoff.domain.policy_checks import (
    FORMAT_KEYS,
    RULE_KEYS,
    Problem,
    policy_problems,
    raise_problems,
    rule_name,
    rule_problems,
    unknown_keys,
)
from signoff.domain.rules import Rule, allow, deny, review
from signoff.domain.tool_patterns import is_exact, matches
from signoff.domain.verdicts import DecisionType, Verdict
from signoff.domain.wording import did_you_mean

__all__ = ["DecisionType", "Judgement", "Policy", "Rule", "Verdict", "allow", "deny", "review"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy says of one call, by which rule and why. `reviewers` are those to ask if it is a review."""

    verdict: Verdict
    rule: str
    policy_digest: str
    reason: str
    decisions: tuple[DecisionType, ...] = tuple(DecisionType)
    reviewers: tuple[str, ...] = ()
    deadline_seconds: float | None = None
    approval_valid_for_seconds: float | None = None
    description: str | None = None


@dataclass(frozen=True)
class Policy:
    """Rules in order, first match wins. A call that no rule matches is denied.

    A condition that can't be evaluated means review, by the rule's reviewers or else by `fallback_reviewers`.
    Raises PolicyInvalid with all that is wrong: `details["problems"]` is a list of `{where, message}`.
    """

    rules: tuple[Rule, ...]
    fallback_reviewers: tuple[str, ...] = ()

    def __init__(self, rules: Iterable[Rule] = (), fallback_reviewers: Iterable[str] = ()) -> None:
        object.__setattr__(self, "rules", tuple(rules))
        fallback = fallback_reviewers if isinstance(fallback_reviewers, str) else tuple(fallback_reviewers)
        object.__setattr__(self, "fallback_reviewers", fallback)
        raw = [rule.raw() for rule in self.rules]
        raise_problems(_placed(problem, raw) for problem in policy_problems(raw, fallback))

    def judge(self, tool: str, args: Mapping[str, Any], *, job: Mapping[str, Any], environment: str) -> Judgement:
        """The verdict on one call. Raises nothing: what can't be evaluated becomes a review."""
        facts: Facts | None = None
        for name, rule, condition in self._compiled:
            if not matches(rule.tool, tool):
                continue
            if condition is None:
                return self._judgement(rule.verdict, name, rule, f"{name!r} says {rule.verdict}")
            if facts is None:
                facts = self._facts(tool, args, job, environment)
            try:
                if condition.holds(facts):
                    return self._judgement(rule.verdict, name, rule, f"{name!r} says {rule.verdict}")
            except CannotEvaluate as error:
                reason = f"the condition of {name!r} can't be evaluated: {error}"
                return self._judgement(Verdict.review, name, rule, reason)
        return Judgement(Verdict.deny, "no rule", self.digest, "no rule of the policy allows it")

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled conditions can't be pickled or copied; they are made anew.
        return (type(self), (self.rules, self.fallback_reviewers))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the policy's meaning; the way it was written down does not matter."""
        return hashlib.sha256(canonical_json(self.to_dict())).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """JSON types alone, for another process to judge by."""
        return {
            "fallback_reviewers": list(self.fallback_reviewers),
            "rules": [rule.to_dict() for rule in self.rules],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`, with the same digest. Raises PolicyInvalid."""
        rules = document.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(raw, Mapping) for raw in rules):
            raise_problems([{"where": "the policy", "message": "rules: must be a list of objects"}])
        raise_problems(_placed(problem, rules) for problem in _document_problems(document, rules))
        return cls([Rule.from_dict(raw) for raw in rules], document.get("fallback_reviewers", ()))

    def check_tools(self, names: Iterable[str]) -> None:
        """Raises PolicyInvalid if a rule's tool matches none of these names."""
        known = sorted(set(names))
        raw = [rule.raw() for rule in self.rules]
        missing = (
            Problem(index, "tool", _unmatched(rule.tool, known))
            for index, rule in enumerate(self.rules)
            if not any(matches(rule.tool, name) for name in known)
        )
        raise_problems(_placed(problem, raw) for problem in missing)

    @cached_property
    def _compiled(self) -> list[tuple[str, Rule, Condition | None]]:
        return [
            (rule_name(rule.raw(), index), rule, compile_condition(rule.when) if rule.when else None)
            for index, rule in enumerate(self.rules)
        ]

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset[str]().union(*(condition.names for _, _, condition in self._compiled if condition))

    def _facts(self, tool: str, args: Mapping[str, Any], job: Mapping[str, Any], environment: str) -> Facts:
        variables = {"tool": tool, "args": dict(args), "job": dict(job), "environment": environment}
        return Facts(variables, self._names)

    def _judgement(self, verdict: Verdict, name: str, rule: Rule, reason: str) -> Judgement:
        return Judgement(
            verdict=verdict,
            rule=name,
            policy_digest=self.digest,
            reason=reason,
            decisions=rule.decisions,
            reviewers=rule.reviewers or self.fallback_reviewers,
            deadline_seconds=rule.deadline_seconds,
            approval_valid_for_seconds=rule.approval_valid_for_seconds,
            description=rule.description,
        )


def _document_problems(document: Mapping[str, Any], rules: list[Mapping[str, Any]]) -> Iterable[Problem]:
    yield from unknown_keys(document, FORMAT_KEYS, None)
    for index, raw in enumerate(rules):
        yield from unknown_keys(raw, RULE_KEYS, index)
        yield from rule_problems(raw, index)
    yield from policy_problems(rules, document.get("fallback_reviewers", ()))


def _placed(problem: Problem, rules: list[dict[str, Any]] | list[Mapping[str, Any]]) -> dict[str, Any]:
    index = problem.rule
    where = "the policy" if index is None else rule_name(rules[index], index)
    return {"where": where, "message": problem.message}


def _unmatched(pattern: str, known: list[str]) -> str:
    if is_exact(pattern):
        return f"tool: no tool is called {pattern!r}{did_you_mean(pattern, known)}"
    return f"tool: no tool matches {pattern!r}{did_you_mean(pattern.strip('*?'), known)}"
