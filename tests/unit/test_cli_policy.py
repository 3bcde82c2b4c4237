"""`signoff policy check`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from signoff.infra.cli.main import app

GOOD = '[[rules]]\ntool = "lookup_*"\nverdict = "allow"\n'
BAD = '[[rules]]\ntool = "lookup_*"\nverdict = "alow"\n\n[[rules]]\ntool = "refund"\nverdict = "review"\nwen = "x"\n'


def check(file: Path, text: str) -> tuple[int, str, str]:
    file.write_text(text)
    result = CliRunner().invoke(app, ["policy", "check", str(file)])
    return result.exit_code, result.stdout, result.stderr


def test_a_good_file(tmp_path: Path) -> None:
    code, out, err = check(tmp_path / "policy.toml", GOOD)
    assert (code, err) == (0, "")
    assert "1 rules, digest " in out


def test_everything_that_is_wrong_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    code, out, err = check(tmp_path / "policy.toml", BAD)
    assert (code, out) == (1, "")
    assert "policy.toml" in err
    assert "line 3, rule 1 (lookup_*): verdict: 'alow' is unknown; did you mean 'allow'?" in err
    assert "line 8, rule 2 (refund): the key 'wen' is unknown; did you mean 'when'?" in err
    assert "a review needs at least one group" in err
    assert err.rstrip().endswith("[policy_invalid]")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(app, ["policy", "check", str(tmp_path / "policy.toml")])
    assert result.exit_code == 1
    assert "can't be read" in result.stderr


def test_a_file_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["policy", "check", str(tmp_path / "none")]).exit_code == 2
