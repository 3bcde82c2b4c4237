"""What can be wrong with a policy, found in its plain form (the one that `Policy.to_dict` gives) and all at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from signoff.domain.canonical import scrub
from signoff.domain.conditions import ConditionInvalid, compile_condition
from signoff.domain.errors import PolicyInvalid
from signoff.domain.tool_patterns import covers
from signoff.domain.verdicts import DecisionType, Verdict
from signoff.domain.wording import did_you_mean, unknown_word

MAX_SECONDS = 3650 * 86400.0
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
            hint = did_you_mean(str(key), known)
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
    yield from (Problem(index, key, message) for key, message in _idle_settings(raw))


def policy_problems(rules: Sequence[RawRule], fallback_reviewers: object) -> Iterator[Problem]:
    """What is wrong with the rules as a whole."""
    if isinstance(fallback_reviewers, (list, tuple)) and not fallback_reviewers:
        yield from _without_reviewers(rules)
    else:
        for message in _groups(fallback_reviewers):
            yield Problem(None, "fallback_reviewers", f"fallback_reviewers: {message}")
    yield from _repeated_names(rules)
    yield from _unreachable(rules)


# --- one value -----------------------------------------------------------------------------------------


def _text(value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield "must be text"
    elif not value.strip():
        yield "must not be empty"
    elif scrub(value) != value:
        yield "has a NUL or a lone surrogate in it"


def _pattern(value: object) -> Iterator[str]:
    yield from _text(value)
    if isinstance(value, str) and set(value) & set("[]"):
        yield "the wildcards are * and ?; there are no [sets]"
    if isinstance(value, str) and value != value.strip():
        yield "begins or ends with a space"


def _verdict(value: object) -> Iterator[str]:
    if value not in list(Verdict):
        yield unknown_word(value, list(Verdict))


def _condition(value: object) -> Iterator[str]:
    wrong = list(_text(value))
    yield from wrong
    if isinstance(value, str) and not wrong:
        try:
            compile_condition(value)
        except ConditionInvalid as error:
            yield str(error)


def _list_of_text(value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)):
        yield "must be a list of words"
    elif not value:
        yield "must not be empty"
    elif not all(isinstance(word, str) for word in value):
        yield "must be a list of words"
    else:
        yield from (f"{word!r} is named twice" for word, count in Counter(value).items() if count > 1)


def _words(value: object) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, (list, tuple)) else []


def _groups(value: object) -> Iterator[str]:
    yield from _list_of_text(value)
    for word in _words(value):
        yield from (f"{word!r} {message}" for message in _text(word))


def _decisions(value: object) -> Iterator[str]:
    yield from _list_of_text(value)
    yield from (unknown_word(word, list(DecisionType)) for word in _words(value) if word not in list(DecisionType))


def _seconds(value: object) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        yield "must be a number of seconds"
    elif not math.isfinite(value) or not 0 < value <= MAX_SECONDS:
        yield "must be more than nothing and at most 3650 days"


RULE_CHECKS: Mapping[str, Callable[[object], Iterator[str]]] = {
    "name": _text,
    "tool": _pattern,
    "verdict": _verdict,
    "when": _condition,
    "decisions": _decisions,
    "reviewers": _groups,
    "deadline_seconds": _seconds,
    "approval_valid_for_seconds": _seconds,
    "description": _text,
}
RULE_KEYS = tuple(RULE_CHECKS)


# --- values that have to fit together ------------------------------------------------------------------


def _idle_settings(raw: RawRule) -> Iterator[tuple[str | None, str]]:
    verdict = raw.get("verdict")
    if verdict == Verdict.review:
        if "reviewers" not in raw:
            yield None, "reviewers: a review needs at least one group"
    elif verdict in (Verdict.allow, Verdict.deny) and "when" not in raw:
        for key in ("reviewers", "decisions", "deadline_seconds", "approval_valid_for_seconds"):
            # The plain form writes out the default.
            if key in raw and raw[key] != list(DecisionType):
                yield key, f"{key}: nobody is ever asked, as the verdict is {str(verdict)!r} and there is no condition"


def _without_reviewers(rules: Sequence[RawRule]) -> Iterator[Problem]:
    for index, raw in enumerate(rules):
        if "when" in raw and "reviewers" not in raw and raw.get("verdict") != Verdict.review:
            message = (
                "when: who is asked if the condition can't be evaluated? "
                "Give the rule reviewers, or the policy fallback_reviewers"
            )
            yield Problem(index, "when", message)


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
