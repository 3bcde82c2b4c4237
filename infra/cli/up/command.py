"""`signoff up`."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from signoff.infra.addresses import state_folder
from signoff.infra.cli.acting import load_settings
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.ports import free_port, require_free
from signoff.infra.cli.up.running import Up
from signoff.infra.cli.up.screen import say
from signoff.infra.cli.up.signals import Signals
from signoff.infra.cli.up.state import StateFolder
from signoff.infra.settings import Settings

app = one_command()


@app.command()
def up(
    state_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data, logs and addresses; instead of SIGNOFF_STATE_DIR")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Instead of SIGNOFF_HTTP_HOST")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Instead of SIGNOFF_HTTP_PORT; 0 takes a free one")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the logs of the processes here too")] = False,
) -> None:
    """Run everything on this machine until Ctrl-C: servers, api, dispatcher, and a worker if agents are configured.

    PostgreSQL and Valkey are embedded ones, unless SIGNOFF_DATABASE_URL and SIGNOFF_REDIS_URL name others; each wins
    on its own. It is ready when it says so. Ctrl-C stops the worker first, which hands its jobs back; a second one
    stops everything at once.
    """
    settings = _settings(state_dir, host, port)
    logging.basicConfig(format="signoff: %(message)s", level=logging.WARNING)
    require_free(settings.http_host, settings.http_port)
    with Signals() as signals, closing(StateFolder(state_folder(settings))) as state:
        _run(settings, state, signals, verbose)
    if signals.hard:
        say("stopped at once; jobs that were running go on when their leases have lapsed")
        raise typer.Exit(1)
    say("stopped")


def _run(settings: Settings, state: StateFolder, signals: Signals, verbose: bool) -> None:
    try:
        state.open()
        say(f"starting; state in {state.path}")
        Up(settings, state, signals, verbose=verbose).run()
    except KeyboardInterrupt:
        return


def _settings(state_dir: Path | None, host: str | None, port: int | None) -> Settings:
    settings = load_settings()
    given = {"state_dir": state_dir, "http_host": host, "http_port": port}
    settings = settings.model_copy(update={name: value for name, value in given.items() if value is not None})
    if settings.http_port == 0:
        return settings.model_copy(update={"http_port": free_port(settings.http_host)})
    return settings
