"""One rule of a policy file: its words, with durations as text, and the plain form that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from signoff.domain.policy_checks import Problem, rule_problems, unknown_keys
from signoff.domain.policy_values import RULE_KEYS, RUNG_KEYS

_DURATIONS = {"deadline": "deadline_seconds", "approval_valid_for": "approval_valid_for_seconds"}
_PLAIN_NAMES = {**_DURATIONS, "reminders": "reminders_seconds", "after": "after_seconds"}
_FILE_NAMES = {plain: name for name, plain in _PLAIN_NAMES.items()}
_KEYS = tuple(_FILE_NAMES.get(key, key) for key in RULE_KEYS)
_RUNG_KEYS = tuple(_FILE_NAMES.get(key, key) for key in RUNG_KEYS)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", re.ASCII)


def plain_rule(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The rule in its plain form, without what has no place in it."""
    plain = {key: value for key, value in raw.items() if key in RULE_KEYS and key not in _FILE_NAMES}
    plain |= {_DURATIONS[name]: value for name in _DURATIONS if (value := _seconds(raw.get(name))) is not None}
    if isinstance(raw.get("when"), dict):
        plain["when"] = "false"  # refused in the words of the file
    if isinstance(raw.get("reminders"), list):
        plain["reminders_seconds"] = [value for text in raw["reminders"] if (value := _seconds(text)) is not None]
    if isinstance(raw.get("escalation"), list):
        plain["escalation"] = [_plain_rung(rung) if isinstance(rung, dict) else rung for rung in raw["escalation"]]
    return plain


def file_rule_problems(raw: Mapping[str, Any], plain: Mapping[str, Any], index: int) -> Iterator[Problem]:
    """All that is wrong with a rule looked at alone, in the words of the file."""
    own = [*unknown_keys(raw, _KEYS, index), *(Problem(index, key, message) for key, message in _wrong_words(raw))]
    yield from own
    said = {problem.key for problem in own}
    found = (_in_file_words(problem) for problem in rule_problems(plain, index))
    yield from (problem for problem in found if problem.key is None or problem.key not in said)


def _plain_rung(raw: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in raw.items() if key in RUNG_KEYS and key not in _FILE_NAMES}
    seconds = _seconds(raw.get("after"))
    return plain if seconds is None else {**plain, "after_seconds": seconds}


def _seconds(value: object) -> float | None:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) * _UNITS[found[2]] if found else None


def _wrong_words(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _DURATIONS:
        yield from ((name, f"{name}: {problem}") for problem in _duration(raw, name))
    if isinstance(raw.get("when"), dict):
        yield "when", "when: must be text (a condition in CEL); a callable is for a policy in Python alone"
    yield from (("reminders", f"reminders: {problem}") for problem in _reminders(raw))
    escalation = raw.get("escalation")
    for number, rung in enumerate(escalation if isinstance(escalation, list) else (), start=1):
        if isinstance(rung, dict):
            yield from _rung(rung, number)


def _duration(raw: Mapping[str, Any], name: str) -> Iterator[str]:
    if name in raw and _seconds(raw[name]) is None:
        yield f"{raw[name]!r} is not a duration; write a number and a unit, as in '90s', '30m', '24h', '7d'"


def _reminders(raw: Mapping[str, Any]) -> Iterator[str]:
    found = raw.get("reminders", [])
    if not isinstance(found, list):
        yield "must be a list of durations, as in ['30m', '2h']"
        return
    for text in found:
        yield from _duration({"reminders": text}, "reminders")


def _rung(raw: Mapping[str, Any], number: int) -> Iterator[tuple[str, str]]:
    place = f"escalation.{number}"
    for problem in unknown_keys(raw, _RUNG_KEYS, None):
        yield f"{place}.{problem.key}", f"escalation: rung {number}: {problem.message}"
    yield from ((f"{place}.after", f"escalation: rung {number}: after: {each}") for each in _duration(raw, "after"))


def _in_file_words(problem: Problem) -> Problem:
    first, dot, rest = (problem.key or "").rpartition(".")
    name = _FILE_NAMES.get(rest)
    if name is None:
        return problem
    return problem._replace(key=f"{first}{dot}{name}", message=problem.message.replace(rest, name))
