"""What can be wrong with one value of a rule, in its plain form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from signoff.domain.canonical import scrub
from signoff.domain.conditions import ConditionInvalid, compile_condition
from signoff.domain.hiding import path_problems
from signoff.domain.policy_callables import callable_problems
from signoff.domain.policy_facts import fact_path_problems
from signoff.domain.templates import template_problems
from signoff.domain.verdicts import AtDeadline, DecisionType, Verdict
from signoff.domain.wording import did_you_mean, unknown_word

MAX_SECONDS = 3650 * 86400.0
MAX_APPROVALS = 100

Check = Callable[[object], Iterator[str]]


def text(value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield "must be text"
    elif not value.strip():
        yield "must not be empty"
    elif scrub(value) != value:
        yield "has a NUL or a lone surrogate in it"


def pattern(value: object) -> Iterator[str]:
    yield from text(value)
    if isinstance(value, str) and set(value) & set("[]"):
        yield "the wildcards are * and ?; there are no [sets]"
    if isinstance(value, str) and value != value.strip():
        yield "begins or ends with a space"


def reviewers(value: object) -> Iterator[str]:
    """Groups, and people written `@name`."""
    yield from _list_of_text(value)
    for word in words(value):
        yield from (f"{word!r} {message}" for message in text(word))
        if word.startswith("@") and (not word[1:].strip() or word[1:] != word[1:].strip()):
            yield f"{word!r}: write a person as @name"


def words(value: object) -> list[str]:
    """The texts of a list; nothing of anything else."""
    return [word for word in value if isinstance(word, str)] if isinstance(value, (list, tuple)) else []


def is_seconds(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value <= MAX_SECONDS


def _one_of(known: Iterable[str]) -> Check:
    def check(value: object) -> Iterator[str]:
        if value not in list(known):
            yield unknown_word(value, list(known))

    return check


def _condition(value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield from callable_problems(value)
        return
    wrong = list(text(value))
    yield from wrong
    if not wrong:
        try:
            compile_condition(value)
        except ConditionInvalid as error:
            yield str(error)


def _description(value: object) -> Iterator[str]:
    yield from text(value)
    if isinstance(value, str):
        yield from template_problems(value)


def _list_of_text(value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)):
        yield "must be a list of words"
    elif not value:
        yield "must not be empty"
    elif not all(isinstance(word, str) for word in value):
        yield "must be a list of words"
    else:
        yield from (f"{word!r} is named twice" for word, count in Counter(value).items() if count > 1)


def _each(check: Callable[[str], Iterator[str]]) -> Check:
    """A list of texts, each of which is looked at by itself."""

    def look(value: object) -> Iterator[str]:
        yield from _list_of_text(value)
        for word in words(value):
            yield from (f"{word!r} {message}" for message in check(word))

    return look


def _decisions(value: object) -> Iterator[str]:
    yield from _list_of_text(value)
    yield from (unknown_word(word, list(DecisionType)) for word in words(value) if word not in list(DecisionType))


def _seconds(value: object) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        yield "must be a number of seconds"
    elif not is_seconds(value):
        yield "must be more than nothing and at most 3650 days"


def _approvals(value: object) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_APPROVALS:
        yield f"must be a whole number of people, from 1 to {MAX_APPROVALS}"


def _reminders(value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not value:
        yield "must be a list of times, with one at least"
        return
    for number, seconds in enumerate(value, start=1):
        yield from (f"number {number} {message}" for message in _seconds(seconds))


def _escalation(value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not value:
        yield "must be a list of rungs, with one at least"


def rung_problems(escalation: object) -> Iterator[tuple[str, str]]:
    """What is wrong with the rungs one by one: the place, as `2.reviewers`, and the problem."""
    for number, rung in enumerate(escalation if isinstance(escalation, (list, tuple)) else (), start=1):
        for key, message in _rung(rung):
            yield f"{number}.{key}", f"rung {number}: {message}"


def _rung(value: object) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping):
        yield "", "must have a time, reviewers and perhaps replace"
        return
    for key in value:
        if key not in RUNG_KEYS:
            yield str(key), f"the key {key!r} is unknown{did_you_mean(str(key), RUNG_KEYS)}"
    for key, check in RUNG_CHECKS.items():
        if key in value:
            yield from ((key, f"{key}: {message}") for message in check(value[key]))
        elif key != "replace":
            yield key, f"{key!r} is missing"


def _flag(value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield "must be true or false"


RUNG_CHECKS: Mapping[str, Check] = {"after_seconds": _seconds, "reviewers": reviewers, "replace": _flag}
RUNG_KEYS: tuple[str, ...] = tuple(RUNG_CHECKS)
RULE_CHECKS: Mapping[str, Check] = {
    "name": text,
    "tool": pattern,
    "verdict": _one_of(Verdict),
    "when": _condition,
    "decisions": _decisions,
    "reviewers": reviewers,
    "approvals": _approvals,
    "deadline_seconds": _seconds,
    "reminders_seconds": _reminders,
    "escalation": _escalation,
    "at_deadline": _one_of(AtDeadline),
    "escalate_to": reviewers,
    "approval_valid_for_seconds": _seconds,
    "description": _description,
    "hide": _each(path_problems),
    "show": _each(fact_path_problems),
    "tool_changes": _each(pattern),
    "edits_need_another": _flag,
    "high_risk": _flag,
}
RULE_KEYS: tuple[str, ...] = tuple(RULE_CHECKS)
