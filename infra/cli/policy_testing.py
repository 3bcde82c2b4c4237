"""`signoff policy test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from signoff.domain.errors import InvalidRequest
from signoff.domain.policy_cases import Failure, PolicyCase, failures, read_cases
from signoff.infra.cli.acting import load_settings
from signoff.infra.cli.output import print_line
from signoff.infra.cli.policy_reading import read_document, read_policy


def test(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy", exists=True, dir_okay=False)],
    cases: Annotated[
        Path,
        typer.Argument(metavar="CASES", help="Calls with their verdicts, .toml or .json", exists=True, dir_okay=False),
    ],
) -> None:
    """Judge the calls of a file, print each that does not get its verdict, and exit 1 if there are any."""
    policy = read_policy(file)
    read = _read(cases)
    failed = failures(policy, read)
    for failure in failed:
        print_line(_in_words(failure))
    print_line(f"{file}: {len(read)} cases, {len(failed)} failed")
    if failed:
        raise typer.Exit(1)


def _read(cases: Path) -> list[PolicyCase]:
    document, environment = read_document(cases), load_settings().environment
    try:
        return read_cases(document, environment)
    except InvalidRequest as error:
        lines = error.details["problems"]
        raise InvalidRequest("\n  ".join([f"{cases} can't be used:", *lines]), problems=lines) from None


def _in_words(failure: Failure) -> str:
    case, judgement = failure
    wrong = case.wrong(judgement)
    if "verdict" in wrong or "rule" in wrong:
        by = ("", "") if case.rule is None else (f" by {case.rule!r}", f" by {judgement.rule!r}")
        wanted, got = f"{case.verdict}{by[0]}", f"{judgement.verdict}{by[1]}"
        return f"{case.name}: {got} instead of {wanted}; {judgement.reason}"
    differ = (f"{key} {_said(got)} instead of {_said(wanted)}" for key, (wanted, got) in wrong.items())
    return f"{case.name}: {', '.join(differ)}; {judgement.reason}"


def _said(value: object) -> str:
    return ", ".join(map(str, value)) or "nobody" if isinstance(value, list) else str(value)
