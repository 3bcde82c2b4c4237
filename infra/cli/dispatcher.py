"""`signoff dispatcher`."""

from __future__ import annotations

from signoff.infra.cli.apps import one_command
from signoff.infra.cli.becoming import become

app = one_command()


@app.command()
def dispatcher() -> None:
    """Offer due jobs, fire deadlines, take streams in and send events out, until SIGTERM or Ctrl-C."""
    become("dispatcher")
