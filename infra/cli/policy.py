"""`signoff policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from signoff.domain.errors import PolicyInvalid
from signoff.domain.policy_file import parse_policy
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import print_line

app = command_group("Check policy files.")


@app.callback()
def _group() -> None:
    """Makes this a group although it has one command."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="In the TOML form", exists=True, dir_okay=False)],
) -> None:
    """Print everything that is wrong with a policy file, each with its line."""
    try:
        policy = parse_policy(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyInvalid(f"{file} can't be read: {error}") from None
    except PolicyInvalid as error:
        lines = [f"  {problem['where']}: {problem['message']}" for problem in error.details["problems"]]
        raise PolicyInvalid("\n".join([f"{file} can't be used:", *lines])) from None
    print_line(f"{file}: {len(policy.rules)} rules, digest {policy.digest}")
