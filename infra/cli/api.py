"""`signoff api`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
import uvloop

from signoff.infra.cli.acting import check_reachable, database_address, load_settings
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.ports import require_free
from signoff.infra.http.serve import serve
from signoff.infra.logs import configure_logs

app = one_command()


@app.command()
def api(
    host: Annotated[str | None, typer.Option(help="Instead of SIGNOFF_HTTP_HOST")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Instead of SIGNOFF_HTTP_PORT")] = None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C; requests under way end first."""
    given = {"http_host": host, "http_port": port}
    settings = load_settings().model_copy(update={name: value for name, value in given.items() if value is not None})
    configure_logs(settings)
    require_free(settings.http_host, settings.http_port)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check_reachable(database_address(settings)))
        runner.run(serve(settings))
