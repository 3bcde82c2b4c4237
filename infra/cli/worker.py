"""`signoff worker`."""

from __future__ import annotations

from signoff.infra.cli.apps import one_command
from signoff.infra.cli.becoming import become

app = one_command()


@app.command()
def worker() -> None:
    """Run the agents that SIGNOFF_AGENTS names until SIGTERM or Ctrl-C; jobs are handed back first."""
    become("worker")
