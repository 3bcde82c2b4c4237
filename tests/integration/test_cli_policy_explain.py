"""`signoff policy explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from signoff.infra.cli.main import app

POLICY = """
fallback_reviewers = ["leads"]

[[rules]]
tool = "lookup_*"
verdict = "allow"

[[rules]]
name = "big"
tool = "refund"
when = "args.amount > 100"
verdict = "review"
reviewers = ["finance", "directors"]
decisions = ["approve", "reject"]
deadline = "24h"
reminders = ["1h"]
escalation = [{ after = "2h", reviewers = ["leads"], replace = true }]
at_deadline = "escalate"
escalate_to = ["@dana"]
approvals = 2
description = "A refund of {args.amount} can't be called back."
hide = ["card"]
show = ["destination", "args.card"]

[[rules]]
name = "own"
tool = "refund"
when = "environment == 'production' && job.submitted_by == 'shop'"
verdict = "allow"

[[rules]]
name = "no rule"
tool = "re*"
when = "has(args.never)"
verdict = "deny"
"""
PASSED = [("rule 1 (lookup_*)", "it is for lookup_*"), ("big", "its condition is false: args.amount > 100")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path / "policy.toml"


def explain(file: Path, call: Any, *options: str, environment: str = "development") -> Result:
    text = call if isinstance(call, str) else json.dumps(call)
    arguments = ["policy", "explain", str(file), "--call", text, *options]
    return CliRunner().invoke(app, arguments, env={"SIGNOFF_ENVIRONMENT": environment})


def explained(file: Path, amount: int, *options: str, environment: str = "development") -> dict[str, Any]:
    call = {"tool": "refund", "args": {"amount": amount}}
    result = explain(file, call, *options, "--json", environment=environment)
    assert (result.exit_code, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def passed_over(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["reason"]) for one in document["passed_over"]]


def test_a_review_with_all_that_the_rule_says(file: Path) -> None:
    document = explained(file, 500)
    assert len(document.pop("policy_digest")) == 64
    assert passed_over(document) == PASSED[:1]
    del document["passed_over"]
    assert document == {
        "verdict": "review",
        "rule": "big",
        "reason": "'big' says review",
        "reviewers": ["finance", "directors"],
        "approvals": 2,
        "decisions": ["approve", "reject"],
        "deadline_seconds": 86400.0,
        "ladder": [
            {"after_seconds": 3600.0, "reviewers": [], "replace": False},
            {"after_seconds": 7200.0, "reviewers": ["leads"], "replace": True},
        ],
        "at_deadline": "escalate",
        "escalate_to": ["@dana"],
        "approval_valid_for_seconds": None,
        "tool_changes": [],
        "edits_need_another": False,
        "shown": {"destination": None, "args.card": "(missing)"},
        "high_risk": False,
        "description": "A refund of 500 can't be called back.",
        "hidden": ["card"],
    }


def test_a_verdict_that_asks_nobody_names_nobody(file: Path) -> None:
    document = explained(file, 5, "--job", '{"submitted_by": "shop"}', "--environment", "production")
    assert (document["verdict"], document["rule"], passed_over(document)) == ("allow", "own", PASSED)
    assert (document["reviewers"], document["decisions"]) == ([], [])


def test_the_environment_is_the_setting_unless_it_is_given(file: Path) -> None:
    job = ("--job", '{"submitted_by": "shop"}')
    assert explained(file, 5, *job, environment="production")["rule"] == "own"
    document = explained(file, 5, *job, "--environment", "test", environment="production")
    assert document["verdict"] == "deny"


def test_where_no_rule_decides_all_are_passed_over_even_one_of_that_name(file: Path) -> None:
    document = explained(file, 5)
    assert (document["verdict"], document["rule"]) == ("deny", "no rule")
    assert [rule for rule, _ in passed_over(document)] == ["rule 1 (lookup_*)", "big", "own", "no rule"]
    taken = explain(file, {"tool": "return", "args": {"never": 1}}, "--json")
    assert len(json.loads(taken.stdout)["passed_over"]) == 3


def test_a_condition_without_an_answer_decides_by_a_review(file: Path) -> None:
    document = explained(file, 5, "--environment", "production")
    assert (document["verdict"], document["rule"], document["reviewers"]) == ("review", "own", ["leads"])
    assert "can't be evaluated: 'submitted_by' is missing" in document["reason"]


def test_destination_and_unseen_are_of_the_call_and_what_is_hidden_is_not_shown(file: Path) -> None:
    args = {"amount": 500, "card": "4111"}
    result = explain(file, {"tool": "refund", "args": args, "destination": {"host": "a"}, "unseen": {}}, "--json")
    assert json.loads(result.stdout)["shown"] == {"destination": {"host": "a"}, "args.card": "[hidden]"}
    assert "4111" not in result.stdout
    assert (
        'shown             destination = {"host": "a"}'
        in explain(file, {"tool": "refund", "args": args, "destination": {"host": "a"}}).stdout
    )


def test_people_read_the_same(file: Path) -> None:
    lines = explain(file, {"tool": "refund", "args": {"amount": 500}}).stdout.splitlines()
    assert "reviewers         finance, directors" in lines
    assert "approvals         2" in lines
    assert "ladder            after 3600 s a reminder; after 7200 s leads instead" in lines
    assert "escalate to       @dana" in lines
    assert any(line.split() == ["rule", "1", "(lookup_*)", "it", "is", "for", "lookup_*"] for line in lines)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('{"tool": "refund"', "--call: it is not JSON"),
        ('{"tool": "refund", "args": {"amount": NaN}}', "NaN is not a number"),
        ({"tool": "refund", "argz": {}}, "the call: the key 'argz' is unknown; did you mean 'args'?"),
        ({"tool": "refund", "unseen": []}, "the call: unseen: must be an object: values by name"),
        ([], "the call: must be an object"),
    ],
)
def test_a_call_that_is_wrong(file: Path, call: Any, message: str) -> None:
    result = explain(file, call)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


def test_a_policy_that_is_wrong_explains_nothing(file: Path) -> None:
    file.write_text("[[rules]]\n", encoding="utf-8")
    result = explain(file, {"tool": "refund"})
    assert result.exit_code == 1
    assert result.stderr.rstrip().endswith("[policy_invalid]")
