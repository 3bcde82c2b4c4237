"""`signoff tokens`: for whoever administers the database."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID, uuid4

import typer

from signoff.domain.authority import PERSONAL, Principal, PrincipalKind, Right
from signoff.domain.canonical import scrub
from signoff.domain.endpoints import EVERYBODY, PERSON
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.infra.cli.acting import administer, administrator
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import JsonFlag, moment, note, print_json, print_line, print_table
from signoff.infra.cli.overlap import Overlap, overlap_words, read_overlap
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.token_rotation import end_token
from signoff.infra.postgres.views import iso
from signoff.infra.services import Services
from signoff.infra.tokens import new_token

app = command_group("Create, list, rotate and revoke tokens. Needs the database alone.")


def valid_name(value: str | None) -> str | None:
    if value is not None and (not value.strip() or len(value) > MAX_NAME_CHARACTERS or scrub(value) != value):
        raise typer.BadParameter(f"must be text of 1 to {MAX_NAME_CHARACTERS} characters")
    return value


def valid_groups(values: list[str] | None) -> list[str] | None:
    """A group that is written like a person would be taken for them."""
    for value in values or ():
        valid_name(value)
        if value.startswith(PERSON) or value == EVERYBODY:
            raise typer.BadParameter(f"a group is not called {EVERYBODY}, and does not begin with {PERSON}")
    return values


@app.command()
def create(
    name: Annotated[str, typer.Option(help="Whose it is: a person or a service", callback=valid_name)],
    kind: Annotated[
        PrincipalKind | None, typer.Option(help="Default: person with the right review or standing, else service")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="What policies call reviewers; repeatable", callback=valid_groups)
    ] = None,
    right: Annotated[list[Right] | None, typer.Option(help="What they may do; repeatable")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the token and nothing else")] = False,
    json: JsonFlag = False,
) -> None:
    """Create a token and show it, this once. Standard output is the token alone; the rest goes to standard error.

    For somebody who exists already, leave out --group and --right: it is one more token, as for a rotation. Different
    ones are refused.
    """

    async def work(services: Services) -> tuple[Principal, UUID, str]:
        async with services.store.begin_as(administrator()) as tx:
            who = _wanted(name, kind, group, right, await tx.principals.get(name))
            await tx.principals.create(who)
            token, token_id = new_token(), uuid4()
            await tx.principals.add_token(token_id, who.name, token[1])
            return who, token_id, token[0]

    who, token_id, plain = administer(work)
    _print_token(plain, token_id, who, quiet, json)


@app.command("list")
def list_(json: JsonFlag = False) -> None:
    """List all tokens, without what only their owners know."""

    async def work(services: Services) -> list[dict[str, Any]]:
        async with services.store.connection() as conn:
            return [_view(row) for row in await PrincipalTable(conn).tokens()]

    tokens = administer(work)
    if json:
        print_json({"tokens": tokens})
        return
    columns = ("token_id", "name", "kind", "groups", "rights", "created_at", "last_used_at", "ends_at", "revoked_at")
    rows = [[_cell(column, token[column]) for column in columns] for token in tokens]
    print_table([column.removesuffix("_at").replace("_", " ") for column in columns], rows)


@app.command()
def rotate(
    which: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN|NAME", help="The token's id, or whose it is if they have one", callback=valid_name
        ),
    ],
    overlap: Overlap = "1h",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the token and nothing else")] = False,
    json: JsonFlag = False,
) -> None:
    """Create a token in another's place and show it, this once. The old one is accepted until the overlap has passed.

    What its owner may do, has approved and has submitted stays as it is.
    """
    new, token_id = new_token(), uuid4()

    async def work(services: Services) -> Principal:
        async with services.store.begin_as(administrator()) as tx:
            name = await end_token(tx.conn, _as_id(which) or which, read_overlap(overlap))
            await tx.principals.add_token(token_id, name, new[1])
            who = await tx.principals.get(name)
            assert who is not None
            return who

    who = administer(work)
    _print_token(new[0], token_id, who, quiet, json)
    if not quiet and not json:
        note(f"The old one ends {overlap_words(overlap)}.")


@app.command()
def revoke(
    token: Annotated[UUID | None, typer.Argument(metavar="TOKEN", help="The token's id, as list shows it")] = None,
    name: Annotated[str | None, typer.Option(help="Or all of a person or service, for good")] = None,
) -> None:
    """Take a token back, or with --name everything from its owner. It holds at once: what they approved and did not
    leave yet won't.
    """
    if (token is None) == (name is None):
        raise typer.BadParameter("give the id of a token, or --name")

    async def work(services: Services) -> None:
        async with services.store.connection() as conn:
            table = PrincipalTable(conn)
            await (table.revoke(name) if name is not None else table.revoke_token(token))  # type: ignore[arg-type]

    administer(work)
    print_line(f"revoked: {name if name is not None else token}")


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _print_token(plain: str, token_id: UUID, who: Principal, quiet: bool, json: bool) -> None:
    if json:
        print_json({"token": plain, "token_id": str(token_id), **_facts(who)})
        return
    typer.echo(plain)
    if not quiet:
        _explain(who, token_id)


def _wanted(
    name: str,
    kind: PrincipalKind | None,
    groups: list[str] | None,
    rights: list[Right] | None,
    known: Principal | None,
) -> Principal:
    """Who the token is to be for: what was asked, and where nothing was, what is known."""
    if known is None and not rights:
        raise typer.BadParameter(f"{name} is new and needs a right", param_hint="--right")
    wanted_rights = frozenset(rights or ()) if rights or known is None else known.rights
    wanted_groups = frozenset(groups or ()) if groups or known is None else known.groups
    wanted_kind = kind or (known.kind if known else _default_kind(wanted_rights))
    if wanted_kind is PrincipalKind.service and (personal := sorted(PERSONAL & wanted_rights)):
        raise typer.BadParameter(f"only persons have the right {' or '.join(personal)}", param_hint="--kind")
    return Principal(name, wanted_kind, wanted_groups, wanted_rights)


def _default_kind(rights: frozenset[Right]) -> PrincipalKind:
    return PrincipalKind.person if rights & PERSONAL else PrincipalKind.service


def _facts(who: Principal) -> dict[str, Any]:
    return {
        "name": who.name,
        "kind": str(who.kind),
        "groups": sorted(who.groups),
        "rights": sorted(map(str, who.rights)),
    }


def _explain(who: Principal, token_id: UUID) -> None:
    groups = f" in {', '.join(sorted(who.groups))}" if who.groups else ""
    note(f"Token {token_id} of the {who.kind} {who.name}{groups}: {', '.join(sorted(who.rights))}.")
    note("It is not shown again. Use it as SIGNOFF_TOKEN, or in the header Authorization: Bearer …")
    if Right.review in who.rights and not who.groups:
        note(f"Without a --group {who.name} is asked by no policy.")


def _view(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: iso(row[name]) for name in ("created_at", "last_used_at", "ends_at", "revoked_at")}
    who = {"name": row["principal"], **{name: row[name] for name in ("kind", "groups", "rights")}}
    return {"token_id": str(row["id"]), **who, **times}


def _cell(column: str, value: Any) -> object:
    if column.endswith("_at"):
        return moment(value)
    return ", ".join(value) if isinstance(value, list) else value
