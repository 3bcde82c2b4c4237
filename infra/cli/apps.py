"""How every command is made."""

from __future__ import annotations

import typer


def one_command() -> typer.Typer:
    """For a module that is one command."""
    return typer.Typer(add_completion=False)


def command_group(help: str) -> typer.Typer:
    """For a module of several commands; alone it says what they are."""
    return typer.Typer(add_completion=False, no_args_is_help=True, help=help)
