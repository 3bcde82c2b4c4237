"""`signoff people`: for whoever administers the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Right
from signoff.domain.delegating import delegate as give_delegation
from signoff.domain.grants import Given, Scope
from signoff.domain.limiting import limit as give_grant
from signoff.domain.limiting import require_person
from signoff.domain.limiting import revoke_grant as take_grant
from signoff.domain.limiting import unlimit as take_limit
from signoff.infra.cli.acting import administer, administrator
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import JsonFlag, print_json, print_line
from signoff.infra.cli.people_screen import print_people, print_person
from signoff.infra.cli.periods import For, Until, period
from signoff.infra.cli.tokens import valid_name
from signoff.infra.postgres.views_people import list_people, show_person
from signoff.infra.services import Services

app = command_group("Say what persons may see and decide. Needs the database alone.")


def _valid_names(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        valid_name(value)
    return values


def _you(given: str) -> str:
    return valid_name(given or None) or administrator()


Name = Annotated[str, typer.Argument(metavar="NAME", help="Who it is", callback=valid_name)]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who does this; default: you", callback=_you)]
Tools = Annotated[list[str], typer.Option("--tool", metavar="PATTERN", help="Calls of these tools; repeatable")]
When = Annotated[str | None, typer.Option("--when", metavar="CEL", help="Only calls for which this holds")]


@app.command("list")
def list_(json: JsonFlag = False) -> None:
    """List all persons with their groups and rights."""

    async def work(services: Services) -> list[dict[str, Any]]:
        async with services.store.connection() as conn:
            return await list_people(conn)

    people = administer(work)
    print_json({"people": people}) if json else print_people(people)


@app.command()
def show(name: Name, json: JsonFlag = False) -> None:
    """Show a person's groups, rights and grants, and the delegations that they gave and hold."""
    _show(name, json, None)


@app.command("set")
def set_(
    name: Name,
    group: Annotated[
        list[str] | None, typer.Option(help="What policies call reviewers; repeatable", callback=_valid_names)
    ] = None,
    no_groups: Annotated[bool, typer.Option("--no-groups", help="Take them out of all groups")] = False,
    right: Annotated[list[Right] | None, typer.Option(help="What they may do; repeatable")] = None,
    by: By = "",
    json: JsonFlag = False,
) -> None:
    """Replace a person's groups, rights, or both. It holds at once, also for approvals that wait."""
    if not group and not no_groups and not right:
        raise typer.BadParameter("give --group, --no-groups or --right")
    if group and no_groups:
        raise typer.BadParameter("--no-groups goes without --group")
    groups = [] if no_groups else group or None

    async def work(services: Services) -> None:
        async with services.store.begin() as tx:
            await require_person(tx, name)
            await tx.grants.set_membership(name, groups, right or None, by)

    _show(name, json, work)


@app.command()
def limit(
    name: Name,
    tool: Tools,
    when: When = None,
    until: Until = None,
    lasting: For = None,
    by: By = "",
    json: JsonFlag = False,
) -> None:
    """Add a grant: from the first one on, the person decides only calls that one of them covers.

    When the last one has ended or is revoked, they decide nothing, until unlimit.
    """
    scope, ends = _scope(tool, when), period(until, lasting)

    async def work(services: Services) -> None:
        await give_grant(services.store, name, scope, ends, by=by)

    _show(name, json, work)


@app.command()
def unlimit(name: Name, by: By = "", json: JsonFlag = False) -> None:
    """Take a person's limit away, with all grants that it was made of."""

    async def work(services: Services) -> None:
        await take_limit(services.store, name, by=by)

    _show(name, json, work)


@app.command("revoke-grant")
def revoke_grant(
    grant: Annotated[UUID, typer.Argument(metavar="GRANT", help="The id of a grant or a delegation, as show has it")],
    by: By = "",
) -> None:
    """Take a grant or a delegation back. It holds at once; who was limited stays limited."""

    async def work(services: Services) -> Given:
        return await take_grant(services.store, grant, by=by)

    given = administer(work)
    print_line(f"revoked: {grant} of {given.person}")


@app.command()
def delegate(
    from_: Annotated[str, typer.Argument(metavar="FROM", help="In whose place", callback=valid_name)],
    to: Annotated[str, typer.Argument(metavar="TO", help="Who decides", callback=valid_name)],
    tool: Tools,
    when: When = None,
    until: Until = None,
    lasting: For = None,
    by: By = "",
    json: JsonFlag = False,
) -> None:
    """Let somebody decide in a person's place: calls that the person could decide, with both names recorded.

    It needs --until or --for, and goes one step: a delegate can't pass on what was delegated.
    """
    scope, ends = _scope(tool, when), period(until, lasting)
    if not ends.has_end:
        raise typer.BadParameter("a delegation needs an end: --until or --for")

    async def work(services: Services) -> None:
        await give_delegation(services.store, from_, to, scope, ends, by=by)

    _show(to, json, work)


def _scope(tools: Sequence[str], when: str | None) -> Scope:
    for tool in tools:
        valid_name(tool)
    return Scope(tuple(tools), when)


def _show(name: str, json: bool, first: Callable[[Services], Awaitable[None]] | None) -> None:
    """Does the work, and shows the person as they are then."""

    async def work(services: Services) -> dict[str, Any]:
        if first is not None:
            await first(services)
        async with services.store.connection() as conn:
            return await show_person(conn, name)

    person = administer(work)
    print_json(person) if json else print_person(person)
