"""`signoff policy test`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from signoff.infra.cli.main import app

POLICY = """
[[rules]]
name = "big"
tool = "refund"
when = "args.amount > 100"
verdict = "review"
reviewers = ["finance"]

[[rules]]
tool = "refund"
when = "environment == 'production'"
verdict = "allow"
reviewers = ["finance"]
"""
GOOD = """
[[cases]]
tool = "refund"
args = { amount = 500 }
verdict = "review"
rule = "big"
"""
BAD = """
[[cases]]
name = "a small one"
tool = "refund"
args = { amount = 5 }
verdict = "allow"

[[cases]]
tool = "refund"
args = { amount = 500 }
verdict = "review"
rule = "bigger"
"""


def judged(folder: Path, cases: str, name: str = "cases.toml", environment: str = "development") -> Result:
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    (folder / name).write_text(cases, encoding="utf-8")
    arguments = ["policy", "test", str(folder / "policy.toml"), str(folder / name)]
    return CliRunner().invoke(app, arguments, env={"SIGNOFF_ENVIRONMENT": environment})


def test_all_as_expected(tmp_path: Path) -> None:
    result = judged(tmp_path, GOOD)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path / 'policy.toml'}: 1 cases, 0 failed\n"


def test_each_failure_is_a_line_and_the_exit_code_1(tmp_path: Path) -> None:
    result = judged(tmp_path, GOOD + BAD)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.splitlines() == [
        "case 2 (a small one): deny instead of allow; no rule of the policy allows it",
        "case 3 (refund): review by 'big' instead of review by 'bigger'; 'big' says review",
        f"{tmp_path / 'policy.toml'}: 3 cases, 2 failed",
    ]


def test_who_and_how_many_are_asked_can_be_expected(tmp_path: Path) -> None:
    right, wrong = 'approvals = 1\nreviewers = ["finance"]\n', 'approvals = 2\nreviewers = ["b", "a"]\n'
    assert judged(tmp_path, GOOD + right).exit_code == 0
    assert judged(tmp_path, GOOD + wrong).stdout.splitlines()[0] == (
        "case 1 (refund): approvals 1 instead of 2, reviewers finance instead of a, b; 'big' says review"
    )


def test_the_environment_of_cases_that_name_none_is_the_setting(tmp_path: Path) -> None:
    assert "a small one" not in judged(tmp_path, BAD, environment="production").stdout
    assert "a small one" in judged(tmp_path, f'environment = "test"\n{BAD}', environment="production").stdout


def test_the_same_in_json(tmp_path: Path) -> None:
    text = '{"cases": [{"tool": "refund", "args": {"amount": 500}, "verdict": "VERDICT"}]}'
    assert judged(tmp_path, text.replace("VERDICT", "review"), "cases.json").exit_code == 0
    assert judged(tmp_path, text.replace("VERDICT", "deny"), "cases.json").exit_code == 1


@pytest.mark.parametrize(
    ("name", "text", "messages"),
    [
        (
            "cases.toml",
            f"{GOOD}rul = 1\n{GOOD}arg = 2",
            ["case 1 (refund): the key 'rul'", "case 2 (refund): the key 'arg'"],
        ),
        ("cases.toml", "", ["cases.toml can't be used:", "the file: 'cases' is missing"]),
        ("cases.toml", "[[cases]", ["cases.toml is not TOML"]),
        ("cases.json", GOOD, ["cases.json: it is not JSON"]),
    ],
)
def test_cases_that_can_not_be_used(tmp_path: Path, name: str, text: str, messages: list[str]) -> None:
    result = judged(tmp_path, text, name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert [message for message in messages if message not in result.stderr] == []


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    judged(tmp_path, GOOD)
    (tmp_path / "cases.toml").write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(app, ["policy", "test", str(tmp_path / "policy.toml"), str(tmp_path / "cases.toml")])
    assert result.exit_code == 1
    assert "is not TOML" in result.stderr
