"""`signoff endpoints`: for whoever administers the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from signoff.domain.dialects import DIALECTS
from signoff.domain.endpoints import EVERYBODY, Endpoint, read_endpoint_name, read_speaks_for
from signoff.domain.errors import InvalidRequest
from signoff.infra.cli.acting import administer, administrator
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import JsonFlag, moment, note, print_facts, print_json, print_line, print_table
from signoff.infra.cli.overlap import Overlap, overlap_words, read_overlap
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.postgres.store import PostgresTransaction
from signoff.infra.postgres.views_endpoints import list_endpoints, show_endpoint
from signoff.infra.services import Services
from signoff.infra.webhooks.signatures import new_secret

app = command_group("Create, list, change, rotate and revoke endpoints. Needs the database alone.")


def _valid_name(value: str) -> str:
    try:
        return read_endpoint_name(value)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None


def _known_dialect(value: str | None) -> str | None:
    known = [dialect.name for dialect in DIALECTS]
    if value is not None and value not in known:
        raise typer.BadParameter(f"must be one of {', '.join(known)}")
    return value


Name = Annotated[str, typer.Argument(metavar="NAME", help="How it is called in its address", callback=_valid_name)]
SpeaksFor = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP|@PERSON", help="In whose name it may decide: a group, or @person; repeatable"),
]
SpeaksForAll = Annotated[bool, typer.Option("--speaks-for-all", help="It may decide in the name of every reviewer")]
DialectName = Annotated[
    str | None,
    typer.Option(metavar="DIALECT", help="The dialect of an answer that names none", callback=_known_dialect),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the secret and nothing else")]


@app.command()
def create(
    name: Name,
    speaks_for: SpeaksFor = None,
    speaks_for_all: SpeaksForAll = False,
    dialect: DialectName = None,
    quiet: Quiet = False,
    json: JsonFlag = False,
) -> None:
    """Create an endpoint and show its signing secret, this once. Standard output is the secret alone."""
    voices = _voices(speaks_for, speaks_for_all)
    if voices is None:
        raise typer.BadParameter("say in whose name it may decide: --speaks-for, or --speaks-for-all")
    secret = new_secret()
    _change(lambda tx: EndpointTable(tx.conn).add(Endpoint(name, voices, dialect), secret))
    _print_secret(name, secret, quiet, json, f"Who signs with it may decide in the name of {_named(voices)}.")


@app.command("list")
def list_(json: JsonFlag = False) -> None:
    """List all endpoints, without their secrets."""

    async def work(services: Services) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await list_endpoints(conn)

    found = administer(work)
    if json:
        print_json(found)
        return
    columns = ("name", "speaks for", "dialect", "secrets", "created", "last used", "revoked")
    print_table(columns, [_row(endpoint) for endpoint in found["endpoints"]])


@app.command()
def show(name: Name, json: JsonFlag = False) -> None:
    """Show an endpoint: in whose name it may decide, and when each of its secrets was last used and ends."""
    view = _shown(name)
    if json:
        print_json(view)
        return
    times = {key.removesuffix("_at"): moment(view[key]) for key in ("created_at", "last_used_at", "revoked_at")}
    dialect, address = view["dialect"], view["decide"]
    print_facts(
        {"name": name, "speaks for": _named(view["speaks_for"]), "dialect": dialect, "decide": address, **times}
    )
    keys = ("secret_id", "created_at", "created_by", "ends_at", "last_used_at")
    rows = [[moment(one[key]) if key.endswith("_at") else one[key] for key in keys] for one in view["secrets"]]
    print_table(("secret", "created", "by", "ends", "last used"), rows)


@app.command()
def rotate(name: Name, overlap: Overlap = "24h", quiet: Quiet = False, json: JsonFlag = False) -> None:
    """Give an endpoint a new secret and show it, this once. The old one is accepted until the overlap has passed."""
    secret = new_secret()
    _change(lambda tx: EndpointTable(tx.conn).rotate(name, secret, read_overlap(overlap)))
    _print_secret(name, secret, quiet, json, f"What it signed with before ends {overlap_words(overlap)}.")


@app.command("set")
def set_(
    name: Name,
    speaks_for: SpeaksFor = None,
    speaks_for_all: SpeaksForAll = False,
    dialect: DialectName = None,
    no_dialect: Annotated[bool, typer.Option("--no-dialect", help="Each answer names its dialect again")] = False,
) -> None:
    """Change in whose name an endpoint may decide, or its dialect. What is not given stays."""
    voices = _voices(speaks_for, speaks_for_all)
    if dialect is not None and no_dialect:
        raise typer.BadParameter("give one of --dialect and --no-dialect")
    if voices is None and dialect is None and not no_dialect:
        raise typer.BadParameter("there is nothing to change")

    async def change(tx: PostgresTransaction) -> None:
        table = EndpointTable(tx.conn)
        now = (await table.live(name))[0]
        spoken = None if no_dialect else dialect or now.dialect
        await table.change(Endpoint(name, now.speaks_for if voices is None else voices, spoken))

    _change(change)
    print_line(f"changed: {name}")


@app.command()
def revoke(name: Name) -> None:
    """Take an endpoint back: nothing that it signs is accepted any more."""
    _change(lambda tx: EndpointTable(tx.conn).revoke(name))
    print_line(f"revoked: {name}")


def _voices(speaks_for: list[str] | None, everybody: bool) -> frozenset[str] | None:
    if everybody and speaks_for:
        raise typer.BadParameter("give one of --speaks-for and --speaks-for-all")
    if everybody:
        return frozenset({EVERYBODY})
    if not speaks_for:
        return None
    if EVERYBODY in speaks_for:
        raise typer.BadParameter("for everybody there is --speaks-for-all")
    try:
        return read_speaks_for(speaks_for)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None


def _change(work: Callable[[PostgresTransaction], Awaitable[None]]) -> None:
    async def change(services: Services) -> None:
        async with services.store.begin_as(administrator()) as tx:
            await work(tx)

    administer(change)


def _shown(name: str) -> dict[str, Any]:
    async def work(services: Services) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_endpoint(conn, name)

    return administer(work)


def _print_secret(name: str, secret: str, quiet: bool, json: bool, what_it_does: str) -> None:
    if json:
        print_json({**_shown(name), "secret": secret})
        return
    typer.echo(secret)
    if not quiet:
        note(f"{what_it_does} Its decisions go to /v1/webhooks/{name}/decisions. The secret is not shown again.")


def _named(voices: Any) -> str:
    return "everybody" if EVERYBODY in voices else ", ".join(sorted(voices))


def _row(endpoint: dict[str, Any]) -> list[object]:
    times = [moment(endpoint[name]) for name in ("created_at", "last_used_at", "revoked_at")]
    return [endpoint["name"], _named(endpoint["speaks_for"]), endpoint["dialect"], len(endpoint["secrets"]), *times]
