"""The entry point. Kept light, so that `--help` is quick: commands are loaded when they are called for."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from signoff.infra.cli.lazy import LazyGroup

app = typer.Typer(
    name="signoff",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"signoff {version('signoff')}")
        raise typer.Exit


@app.callback()
def signoff(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit")
    ] = False,
) -> None:
    """Runs AI agents that must ask a person before they act.

    Settings come from the environment (SIGNOFF_*). Exit codes: 0 done, 1 refused or failed, 2 bad usage.
    """


def main() -> None:
    app(prog_name="signoff")
