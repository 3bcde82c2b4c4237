"""What can be wrong with a policy, found in its plain form (the one that `Policy.to_dict` gives) and all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from signoff.domain.effects import EffectClass
from signoff.domain.errors import PolicyInvalid
from signoff.domain.policy_fits import fitting_problems
from signoff.domain.policy_values import RULE_CHECKS, reviewers, rung_problems, words
from signoff.domain.tool_patterns import covers, is_exact, matches
from signoff.domain.verdicts import AtDeadline, Verdict
from signoff.domain.wording import did_you_mean

FORMAT_KEYS = ("fallback_reviewers", "rules")
REQUIRED = ("tool", "verdict")

RawRule = Mapping[str, Any]


class Problem(NamedTuple):
    """One thing that is wrong; `rule` counts from 0, None is the policy itself."""

    rule: int | None
    key: str | None
    message: str


def raise_problems(problems: Iterable[dict[str, Any]]) -> None:
    """Raises PolicyInvalid if there are any; each has `where` and `message`."""
    found = list(problems)
    if not found:
        return
    lines = [f"{problem['where']}: {problem['message']}" for problem in found]
    raise PolicyInvalid("the policy can't be used:\n" + "\n".join(lines), problems=found)


def rule_name(raw: RawRule, index: int) -> str:
    """The given name, or one made of the rule's position (from 1) and its tool: `rule 3 (refund)`."""
    tool = f" ({raw['tool']})" if "tool" in raw else ""
    return str(raw.get("name") or f"rule {index + 1}{tool}")


def unknown_keys(raw: Mapping[str, Any], known: Sequence[str], index: int | None) -> Iterator[Problem]:
    for key in raw:
        if key not in known:
            twin = next(
                (word for word in known if word.removesuffix("_seconds") == str(key).removesuffix("_seconds")), ""
            )
            hint = did_you_mean(twin or str(key), known)
            if index is not None and key in FORMAT_KEYS:
                hint = "; it belongs to the policy: write it above the first rule"
            yield Problem(index, str(key), f"the key {str(key)!r} is unknown{hint}")


def rule_problems(raw: RawRule, index: int) -> Iterator[Problem]:
    """What is wrong with one rule, looked at alone; unknown keys are not looked at."""
    for key in REQUIRED:
        if key not in raw:
            yield Problem(index, None, f"{key!r} is missing")
    for key, check in RULE_CHECKS.items():
        if key in raw:
            yield from (Problem(index, key, f"{key}: {message}") for message in check(raw[key]))
    for place, message in rung_problems(raw.get("escalation")):
        yield Problem(index, f"escalation.{place}", f"escalation: {message}")
    yield from (Problem(index, key, message) for key, message in fitting_problems(raw))


def policy_problems(rules: Sequence[RawRule], fallback_reviewers: object) -> Iterator[Problem]:
    """What is wrong with the rules as a whole."""
    if isinstance(fallback_reviewers, (list, tuple)) and not fallback_reviewers:
        yield from _without_reviewers(rules)
    else:
        for message in reviewers(fallback_reviewers):
            yield Problem(None, "fallback_reviewers", f"fallback_reviewers: {message}")
        yield from _too_few_to_fall_back_on(rules, words(fallback_reviewers))
    yield from _repeated_names(rules)
    yield from _unreachable(rules)


def _without_reviewers(rules: Sequence[RawRule]) -> Iterator[Problem]:
    for index, raw in enumerate(rules):
        if "when" in raw and "reviewers" not in raw and raw.get("verdict") != Verdict.review:
            message = (
                "when: who is asked if the condition can't be evaluated? "
                "Give the rule reviewers, or the policy fallback_reviewers"
            )
            yield Problem(index, "when", message)


def _too_few_to_fall_back_on(rules: Sequence[RawRule], people: list[str]) -> Iterator[Problem]:
    if not people or not all(word.startswith("@") for word in people):
        return
    for index, raw in enumerate(rules):
        needed = raw.get("approvals", 1)
        if "reviewers" not in raw and isinstance(needed, int) and needed > len(people):
            message = f"approvals: {needed} are needed, and the fallback_reviewers are {len(people)} alone"
            yield Problem(index, "approvals", message)


def _repeated_names(rules: Sequence[RawRule]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, raw in enumerate(rules):
        name = rule_name(raw, index)
        if first.setdefault(name, index) != index:
            yield Problem(index, "name", f"name: {name!r} is the name of rule {first[name] + 1} already")


def _unreachable(rules: Sequence[RawRule]) -> Iterator[Problem]:
    for index, raw in enumerate(rules):
        earlier = next((i for i, other in enumerate(rules[:index]) if _shadows(other, raw)), None)
        if earlier is not None:
            name = rule_name(rules[earlier], earlier)
            yield Problem(index, "tool", f"tool: never reached, {name!r} comes first and takes every such call")


def _shadows(earlier: RawRule, later: RawRule) -> bool:
    broad, narrow = earlier.get("tool"), later.get("tool")
    texts = isinstance(broad, str) and isinstance(narrow, str)
    return texts and "when" not in earlier and covers(str(broad), str(narrow))


# --- with the agent's tools ----------------------------------------------------------------------------


def tool_problems(rules: Sequence[RawRule], names: Iterable[str]) -> Iterator[Problem]:
    """Rules whose pattern matches no tool, or that let an edit change to none."""
    known = sorted(set(names))
    for index, raw in enumerate(rules):
        for key, pattern in [("tool", raw["tool"]), *(("tool_changes", each) for each in raw.get("tool_changes", ()))]:
            if not any(matches(pattern, name) for name in known):
                yield Problem(index, key, f"{key}: {_unmatched(pattern, known)}")


def class_problems(rules: Sequence[RawRule], classes: Mapping[str, str]) -> Iterator[Problem]:
    """Rules by which time alone could approve a call that does more than read."""
    for index, raw in enumerate(rules):
        if raw.get("at_deadline") != AtDeadline.approve:
            continue
        found = [name for name in sorted(classes) if matches(raw["tool"], name) and classes[name] != EffectClass.read]
        if found:
            message = f"at_deadline: 'approve' is for tools that only read, and {found[0]!r} is {classes[found[0]]}"
            yield Problem(index, "at_deadline", message)


def _unmatched(pattern: str, known: list[str]) -> str:
    if is_exact(pattern):
        return f"no tool is called {pattern!r}{did_you_mean(pattern, known)}"
    return f"no tool matches {pattern!r}{did_you_mean(pattern.strip('*?'), known)}"
