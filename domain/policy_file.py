"""The file form of a policy: TOML text in, a Policy out, or all that is wrong with it, each with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from signoff.domain.policy import Policy
from signoff.domain.policy_checks import (
    FORMAT_KEYS,
    Problem,
    policy_problems,
    raise_problems,
    rule_name,
    rule_problems,
    unknown_keys,
)
from signoff.domain.policy_lines import Lines
from signoff.domain.policy_values import RULE_KEYS
from signoff.domain.rules import Rule

_DURATIONS = {"deadline": "deadline_seconds", "approval_valid_for": "approval_valid_for_seconds"}
_FILE_NAMES = {plain: name for name, plain in _DURATIONS.items()}
_FILE_KEYS = tuple(_FILE_NAMES.get(key, key) for key in RULE_KEYS)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", re.ASCII)


def parse_policy(text: str) -> Policy:
    """The policy written in `text`. Raises PolicyInvalid; its `details["problems"]` are `{where, line, message}`."""
    text = text.removeprefix("\ufeff")
    document = _parsed(text)
    raw_rules = document.get("rules", [])
    tables = [raw for raw in raw_rules if isinstance(raw, dict)] if isinstance(raw_rules, list) else []
    rules = [_plain(raw) for raw in tables]
    problems = [*_shape_problems(document), *_rules_problems(tables, rules)]
    problems += policy_problems(rules, document.get("fallback_reviewers", []))
    lines = Lines(text)
    raise_problems(sorted((_placed(problem, rules, lines) for problem in problems), key=lambda found: found["line"]))
    return Policy([Rule.from_dict(raw) for raw in rules], document.get("fallback_reviewers", []))


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(found[1]) if found else max(1, text.count("\n"))
        message = f"this is not TOML: {str(error)[:200] or 'nested too deeply'}"
        raise_problems([{"where": f"line {line}", "line": line, "message": message}])
        raise


def _shape_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    yield from unknown_keys(document, FORMAT_KEYS, None)
    rules = document.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(raw, dict) for raw in rules):
        yield Problem(None, "rules", "rules: must be tables; begin each rule with [[rules]]")


def _rules_problems(tables: list[dict[str, Any]], rules: list[dict[str, Any]]) -> Iterator[Problem]:
    for index, (raw, plain) in enumerate(zip(tables, rules, strict=True)):
        yield from unknown_keys(raw, _FILE_KEYS, index)
        for name in _DURATIONS:
            if name in raw and _seconds(raw[name]) is None:
                hint = "write a number and a unit, as in '90s', '30m', '24h', '7d'"
                yield Problem(index, name, f"{name}: {raw[name]!r} is not a duration; {hint}")
        yield from (_in_file_words(problem) for problem in rule_problems(plain, index))


def _plain(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The rule in its plain form, without what has no place in it."""
    plain = {key: value for key, value in raw.items() if key in RULE_KEYS and key not in _FILE_NAMES}
    seconds = {_DURATIONS[name]: _seconds(raw[name]) for name in _DURATIONS if name in raw}
    return plain | {key: value for key, value in seconds.items() if value is not None}


def _seconds(value: object) -> float | None:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) * _UNITS[found[2]] if found else None


def _in_file_words(problem: Problem) -> Problem:
    name = _FILE_NAMES.get(problem.key or "")
    if not name:
        return problem
    return problem._replace(key=name, message=problem.message.replace(f"{problem.key}:", f"{name}:"))


def _placed(problem: Problem, rules: list[dict[str, Any]], lines: Lines) -> dict[str, Any]:
    line = lines.of(problem.rule, problem.key)
    rule = "" if problem.rule is None else f", {rule_name(rules[problem.rule], problem.rule)}"
    return {"where": f"line {line}{rule}", "line": line, "message": problem.message}
