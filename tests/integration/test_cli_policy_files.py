"""`signoff policy init` with files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from signoff.domain import parse_policy
from signoff.infra.cli.main import app


def init(*options: object) -> Result:
    return CliRunner().invoke(app, ["policy", "init", *map(str, options)])


def tools_file(folder: Path, tools: Any) -> Path:
    file = folder / "tools.json"
    file.write_text(json.dumps(tools), encoding="utf-8")
    return file


def test_standard_output_is_a_policy_that_check_takes(tmp_path: Path) -> None:
    tools = tools_file(tmp_path, {"refund": {"class": "keyed"}, "lookup": {"class": "read"}, "a\u202eb\x1b": {}})
    result = init("--tools", tools)
    assert (result.exit_code, result.stderr) == (0, "")
    rules = parse_policy(result.stdout).rules
    assert [(rule.tool, rule.verdict) for rule in rules] == [
        ("refund", "review"),
        ("a\u202eb\x1b", "review"),
        ("lookup", "allow"),
    ]
    assert rules[0].reviewers == ("reviewers",)


def test_a_file_is_written_once_and_never_overwritten(tmp_path: Path) -> None:
    tools, output = tools_file(tmp_path, {"lookup": {"class": "read"}}), tmp_path / "policy.toml"
    assert init("--tools", tools, "--output", output).exit_code == 0
    before = output.read_bytes()
    tools_file(tmp_path, {"other": {}})
    again = init("--tools", tools, "--output", output)
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.rstrip().endswith("[invalid_request]")
    assert output.read_bytes() == before


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    result = init("--tools", tools_file(tmp_path, {}), "--output", tmp_path / "none" / "policy.toml")
    assert result.exit_code == 1
    assert "can't be written" in result.stderr


def test_tools_that_are_wrong_write_nothing(tmp_path: Path) -> None:
    output = tmp_path / "policy.toml"
    result = init("--tools", tools_file(tmp_path, {"a": {"klass": "read"}}), "--output", output)
    assert result.exit_code == 1
    assert "tool 'a': the key 'klass' is unknown; did you mean 'class'?" in result.stderr
    assert not output.exists()


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('{"a": {}, "a": {"class": "read"}}')
    result = init("--tools", tmp_path / "tools.json")
    assert result.exit_code == 1
    assert "tools.json: it is not JSON: the key 'a' comes twice" in result.stderr
    assert result.stderr.rstrip().endswith("[malformed_json]")


@pytest.mark.parametrize("both", [True, False])
def test_one_source_of_tools_is_needed(tmp_path: Path, both: bool) -> None:
    options = ["--agent", "desk", "--tools", tools_file(tmp_path, {})] if both else []
    assert init(*options).exit_code == 2
