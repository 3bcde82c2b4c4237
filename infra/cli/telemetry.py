"""`signoff telemetry`."""

from __future__ import annotations

from importlib.resources import files

import typer

from signoff.infra.cli.apps import command_group

app = command_group("Print what watches a deployment: alert rules and a dashboard.")


@app.command()
def alerts() -> None:
    """Print alert rules for Prometheus."""
    _print("alerts.yml")


@app.command()
def dashboard() -> None:
    """Print a dashboard for Grafana."""
    _print("dashboard.json")


def _print(name: str) -> None:
    typer.echo(files("signoff.infra.telemetry").joinpath(name).read_text(encoding="utf-8"), nl=False)
