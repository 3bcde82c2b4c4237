"""A policy: rules in order, of which the first that matches a call decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from signoff.domain.canonical import canonical_json
from signoff.domain.conditions import CannotEvaluate, Condition, Facts, NotHere, compile_condition
from signoff.domain.effects import EffectClass
from signoff.domain.ladders import Rung
from signoff.domain.policy_callables import Called, Elsewhere
from signoff.domain.policy_checks import (
    FORMAT_KEYS,
    Problem,
    class_problems,
    policy_problems,
    raise_problems,
    rule_name,
    rule_problems,
    tool_problems,
    unknown_keys,
)
from signoff.domain.policy_judgement import Judgement, settings, told
from signoff.domain.policy_values import RULE_KEYS
from signoff.domain.rules import Rule, allow, deny, review
from signoff.domain.tool_patterns import matches
from signoff.domain.verdicts import AtDeadline, DecisionType, Verdict

__all__ = ["AtDeadline", "DecisionType", "Judgement", "Policy", "Rule", "Rung", "Verdict", "allow", "deny", "review"]

AnyCondition = Condition | Called | Elsewhere


@dataclass(frozen=True)
class Policy:
    """Rules in order, first match wins. A call that no rule matches is denied.

    A condition that can't be evaluated means review, by the rule's reviewers or else by `fallback_reviewers`. What no
    rule matches, or no condition can judge, counts as high-risk.
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

    def judge(
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        job: Mapping[str, Any],
        environment: str,
        destination: Any = None,
        unseen: Mapping[str, Any] | None = None,
        hidden: Iterable[str] = (),
    ) -> Judgement:
        """The verdict on one call. Raises nothing: what can't be evaluated becomes a review.

        `destination` is where the call goes, as far as it is known; `unseen` what the tool is given besides `args`,
        which the model never saw; `hidden` are paths that are masked beside those of the rule.
        """
        variables = {
            "tool": tool,
            "args": dict(args),
            "destination": destination,
            "environment": environment,
            "job": dict(job),
            "unseen": dict(unseen or {}),
        }
        facts: Facts | None = None
        for name, rule, condition in self._compiled:
            if not matches(rule.tool, tool):
                continue
            if condition is not None:
                facts = facts or Facts(variables, self._names)
                try:
                    if not condition.holds(facts):
                        continue
                except CannotEvaluate as error:
                    return self._without_answer(name, _hiding(rule, hidden), variables, error)
            reason = f"{name!r} says {rule.verdict}"
            return self._judgement(rule.verdict, name, _hiding(rule, hidden), variables, reason)
        return Judgement(Verdict.deny, "no rule", self.digest, "no rule of the policy allows it", high_risk=True)

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
        """Raises PolicyInvalid if a pattern of a rule matches none of these names."""
        raw = [rule.raw() for rule in self.rules]
        raise_problems(_placed(problem, raw) for problem in tool_problems(raw, names))

    def check_classes(self, classes: Mapping[str, EffectClass]) -> None:
        """Raises PolicyInvalid if a call of one of these tools could be approved by time alone, and isn't `read`."""
        raw = [rule.raw() for rule in self.rules]
        raise_problems(_placed(problem, raw) for problem in class_problems(raw, classes))

    @cached_property
    def _compiled(self) -> list[tuple[str, Rule, AnyCondition | None]]:
        return [(rule_name(rule.raw(), index), rule, _compiled(rule)) for index, rule in enumerate(self.rules)]

    @cached_property
    def _names(self) -> frozenset[str]:
        found = (condition.names for _, _, condition in self._compiled if isinstance(condition, Condition))
        return frozenset[str]().union(*found)

    def _without_answer(self, name: str, rule: Rule, variables: Mapping[str, Any], error: CannotEvaluate) -> Judgement:
        # What other rules for this tool hide is hidden from those who are asked in their stead, too.
        others = (path for other in self.rules if matches(other.tool, variables["tool"]) for path in other.hide)
        hide = tuple(dict.fromkeys((*rule.hide, *others)))
        reason = f"the condition of {name!r} can't be evaluated: {error.discreet if hide else error}"
        found = self._judgement(Verdict.review, name, replace(rule, hide=hide), variables, reason)
        # What nobody could look into is nothing for time to approve.
        timed = rule.at_deadline is AtDeadline.approve
        at_deadline = AtDeadline.reject if timed else rule.at_deadline
        return replace(found, evaluated=isinstance(error, NotHere), at_deadline=at_deadline, high_risk=True)

    def _judgement(
        self, verdict: Verdict, name: str, rule: Rule, variables: Mapping[str, Any], reason: str
    ) -> Judgement:
        return Judgement(
            verdict=verdict,
            rule=name,
            policy_digest=self.digest,
            reason=reason,
            reviewers=rule.reviewers or self.fallback_reviewers,
            **settings(rule),
            **told(rule, variables),
        )


def _hiding(rule: Rule, more: Iterable[str]) -> Rule:
    hide = tuple(dict.fromkeys((*rule.hide, *more)))
    return rule if hide == rule.hide else replace(rule, hide=hide)


def _compiled(rule: Rule) -> AnyCondition | None:
    if rule.when is None or isinstance(rule.when, Elsewhere):
        return rule.when
    return compile_condition(rule.when) if isinstance(rule.when, str) else Called(rule.when)


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
