"""`signoff policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import print_line
from signoff.infra.cli.policy_explain import explain
from signoff.infra.cli.policy_init import init
from signoff.infra.cli.policy_reading import read_policy
from signoff.infra.cli.policy_testing import test

app = command_group("Write, check, explain and test policy files.")
app.command()(init)
app.command()(explain)
app.command()(test)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="In the TOML form", exists=True, dir_okay=False)],
) -> None:
    """Print everything that is wrong with a policy file, each with its line."""
    policy = read_policy(file)
    print_line(f"{file}: {len(policy.rules)} rules, digest {policy.digest}")
