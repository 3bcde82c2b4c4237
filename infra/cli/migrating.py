"""`signoff migrate`."""

from __future__ import annotations

import asyncio

import typer

from signoff.infra.cli.acting import check_reachable, database_address, load_settings, refusals_in_words
from signoff.infra.cli.apps import one_command
from signoff.infra.postgres.migrate import migrate

app = one_command()


@app.command("migrate")
def migrate_() -> None:
    """Bring the database to this version's schema. Safe to run at any time, and from many places at once."""
    revision = asyncio.run(_migrate(database_address(load_settings())))
    typer.echo(f"the database is at schema {revision}")


async def _migrate(database_url: str) -> str:
    await check_reachable(database_url)
    with refusals_in_words():
        return await migrate(database_url)
