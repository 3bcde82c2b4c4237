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
    unknown_keys,
)
from signoff.domain.policy_file_rules import file_rule_problems, plain_rule
from signoff.domain.policy_lines import Lines
from signoff.domain.rules import Rule


def parse_policy(text: str) -> Policy:
    """The policy written in `text`. Raises PolicyInvalid; its `details["problems"]` are `{where, line, message}`."""
    text = text.removeprefix("\ufeff")
    document = _parsed(text)
    raw_rules = document.get("rules", [])
    tables = [raw for raw in raw_rules if isinstance(raw, dict)] if isinstance(raw_rules, list) else []
    rules = [plain_rule(raw) for raw in tables]
    problems = list(_shape_problems(document))
    for index, (raw, plain) in enumerate(zip(tables, rules, strict=True)):
        problems += file_rule_problems(raw, plain, index)
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


def _placed(problem: Problem, rules: list[dict[str, Any]], lines: Lines) -> dict[str, Any]:
    line = lines.of(problem.rule, problem.key)
    rule = "" if problem.rule is None else f", {rule_name(rules[problem.rule], problem.rule)}"
    return {"where": f"line {line}{rule}", "line": line, "message": problem.message}
