"""The command line without a database: what there is, what it loads, and what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from signoff.infra.cli.lazy import COMMANDS, load
from signoff.infra.cli.main import app
from signoff.infra.cli.output import moment, safe

HEAVY = ("psycopg", "langgraph", "celery", "fastapi", "alembic", "redis", "httpx")


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_help_lists_every_command_and_loads_none() -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from signoff.infra.cli.main import app
print(CliRunner().invoke(app, ["--help"]).stdout)
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "loaded: []" in done.stdout
    for name, lazy in COMMANDS.items():
        assert name in done.stdout
        assert lazy.help in " ".join(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"Usage: signoff {name}" in out
    assert load(name).help


def test_version_and_no_arguments() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("signoff ")
    assert "Commands" in run()[1]


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("job",), ("jobs", "nope"), ("jobs", "show"), ("jobs", "show", "no-uuid"), ("up", "--nope")],
)
def test_bad_usage_is_2(arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: signoff" in err


def test_a_near_miss_is_named() -> None:
    assert "Did you mean 'jobs'" in run("jbos")[2]


def test_settings_that_cannot_be_read_are_named_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_HTTP_PORT", "hunter2")
    code, out, err = run("jobs", "list")
    assert (code, out) == (1, "")
    assert err.startswith("signoff: the settings can't be used:")
    assert "SIGNOFF_HTTP_PORT" in err
    assert "[settings_invalid]" in err
    assert "hunter2" not in err


def test_without_addresses_the_variable_to_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("SIGNOFF_TOKEN", "x")
    code, out, err = run("jobs", "list")
    assert (code, out) == (1, "")
    assert "SIGNOFF_DATABASE_URL" in err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Ünïcode, 東京 and 🦜", "plain, Ünïcode, 東京 and 🦜"),
        ("two\nlines", "two\nlines"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\u202e0001 dnufer", "\\u202e0001 dnufer"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        ("\U000e0041tag", "\\U000e0041tag"),
        (12, "12"),
    ],
)
def test_text_of_others_only_shows(text: object, shown: str) -> None:
    assert safe(text) == shown


def test_times_are_to_the_second() -> None:
    assert moment("2026-11-30T20:51:39.340521+00:00") == "2026-11-30 20:51:39Z"
    assert moment(None) is None
