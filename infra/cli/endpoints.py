"""`signoff endpoints`: for whoever administers the database."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from signoff.infra.cli.acting import administer
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import JsonFlag, moment, note, print_json, print_line, print_table
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.views import iso
from signoff.infra.services import Services
from signoff.infra.webhooks.signatures import new_secret

app = command_group("Create, list and revoke endpoints that send signed decisions. Needs the database alone.")

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def _valid(value: str) -> str:
    if not NAME.fullmatch(value):
        raise typer.BadParameter("must be of letters, digits, '.', '_' and '-', 100 at most: it is part of an address")
    return value


Name = Annotated[str, typer.Argument(metavar="NAME", help="How it is called in its address", callback=_valid)]


@app.command()
def create(
    name: Name,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the secret and nothing else")] = False,
    json: JsonFlag = False,
) -> None:
    """Create an endpoint and show its signing secret, this once. Standard output is the secret alone."""
    secret = new_secret()

    async def work(services: Services) -> None:
        async with services.store.connection() as conn:
            await PrincipalTable(conn).add_endpoint(name, secret)

    administer(work)
    address = f"/v1/webhooks/{name}/decisions"
    if json:
        print_json({"name": name, "secret": secret, "decide": address})
        return
    typer.echo(secret)
    if not quiet:
        note(f"Who signs with it may send decisions to {address}, in the name of reviewers. It is not shown again.")


@app.command("list")
def list_(json: JsonFlag = False) -> None:
    """List all endpoints, without their secrets."""

    async def work(services: Services) -> list[dict[str, Any]]:
        async with services.store.connection() as conn:
            return [_view(row) for row in await PrincipalTable(conn).endpoints()]

    endpoints = administer(work)
    if json:
        print_json({"endpoints": endpoints})
        return
    rows = [(found["name"], moment(found["created_at"]), moment(found["revoked_at"])) for found in endpoints]
    print_table(("name", "created", "revoked"), rows)


@app.command()
def revoke(name: Name) -> None:
    """Take an endpoint back: nothing that it signs is accepted any more."""

    async def work(services: Services) -> None:
        async with services.store.connection() as conn:
            await PrincipalTable(conn).revoke_endpoint(name)

    administer(work)
    print_line(f"revoked: {name}")


def _view(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": row["name"], "created_at": iso(row["created_at"]), "revoked_at": iso(row["revoked_at"])}
