"""Commands that are known by name and loaded when they are called for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from signoff.domain.errors import SignoffError


class Lazy(NamedTuple):
    """The module whose `app` is the command, and what the overview says of it."""

    module: str
    help: str


COMMANDS: Mapping[str, Lazy] = {
    "up": Lazy("up.command", "Run everything on this machine until Ctrl-C"),
    "api": Lazy("api", "Serve the HTTP API"),
    "worker": Lazy("worker", "Run the agents that SIGNOFF_AGENTS names"),
    "dispatcher": Lazy("dispatcher", "Offer due jobs, fire deadlines, send events"),
    "migrate": Lazy("migrating", "Bring the database to this version's schema"),
    "doctor": Lazy("doctor", "Look for what is wrong with a deployment"),
    "telemetry": Lazy("telemetry", "Print alert rules and a dashboard"),
    "restored": Lazy("restored", "Say that the database is a restored backup"),
    "status": Lazy("status", "Show how everything stands, and what needs a person"),
    "jobs": Lazy("jobs", "Submit, list, show, cancel, retry, fork and repair jobs"),
    "reviews": Lazy("reviews", "List, show and decide reviews"),
    "effects": Lazy("effects", "List, show, replay and settle effects"),
    "replay": Lazy("replay", "Plan what replaying many would do, and do it"),
    "alarms": Lazy("alarms", "List and acknowledge alarms: what may have happened twice"),
    "dead-letters": Lazy("dead_letters", "List, show, requeue and discard what is stuck"),
    "pauses": Lazy("pauses", "Hold effects back, list that, and let them go on"),
    "providers": Lazy("providers", "List whom tools send to; close a circuit"),
    "workers": Lazy("workers", "List workers, and ask them to drain"),
    "standing": Lazy("standing", "Allow or deny calls beforehand, list that, take it back"),
    "people": Lazy("people", "Say what persons may see and decide"),
    "tokens": Lazy("tokens", "Create, list, rotate and revoke tokens"),
    "endpoints": Lazy("endpoints", "Create, list, change, rotate and revoke webhook endpoints"),
    "verify": Lazy("verify", "Check all promises, as far as the database can tell"),
    "reconcile": Lazy("reconcile", "Compare a provider's export with the ledger"),
    "audit": Lazy("audit", "Verify, export and list what was done, chained"),
    "subscriptions": Lazy("subscriptions", "Create and manage subscriptions: where events are sent"),
    "policy": Lazy("policy", "Write, check, explain and test policy files"),
}


def load(name: str) -> TyperCommand | TyperGroup:
    """The command itself, with all that its module imports."""
    module = import_module(f"signoff.infra.cli.{COMMANDS[name].module}")
    command = typer.main.get_command(module.app)
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


class LazyGroup(TyperGroup):
    """Lists its commands by `COMMANDS` alone; what a command refuses ends as a line on stderr and exit code 1."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, lazy in COMMANDS.items():
            self.add_command(TyperCommand(name, help=lazy.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        return name, load(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SignoffError as error:
            typer.echo(f"signoff: {error.message} [{error.code}]", err=True)
            raise typer.Exit(1) from None
        except BrokenPipeError:
            # Whoever read our output has enough of it. Nothing may be flushed to it at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
