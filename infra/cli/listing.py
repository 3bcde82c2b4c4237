"""The one form of every command that lists: its own filters, and what all lists have in common."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.errors import InvalidRequest
from signoff.domain.filters import Age, parse_label, parse_span
from signoff.infra.cli.acting import TokenFile
from signoff.infra.cli.output import JsonFlag
from signoff.infra.cli.paging import DEFAULT_ROWS, Cursor, Limit
from signoff.infra.cli.watching import Show, WatchFlag, look, rows
from signoff.infra.postgres.views import Page
from signoff.infra.services import Services

Read = Callable[[AsyncConnection[DictRow], Principal, Page], Awaitable[dict[str, Any]]]


def span(text: str) -> timedelta:
    """Raises typer.BadParameter."""
    try:
        return parse_span(text)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None


OlderThan = Annotated[
    timedelta | None,
    typer.Option("--older-than", metavar="TIME", parser=span, help="Only what is as old as this: 90s, 15m, 2h, 30d"),
]
NewerThan = Annotated[
    timedelta | None, typer.Option("--newer-than", metavar="TIME", parser=span, help="Only what is not as old as this")
]
Label = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Only of jobs with this label; repeatable: with all of them"),
]


def age(older_than: timedelta | None, newer_than: timedelta | None) -> Age:
    return Age(older_than, newer_than)


def labels(given: list[str] | None) -> dict[str, str]:
    """Raises typer.BadParameter."""
    try:
        return dict(parse_label(label) for label in given or ())
    except InvalidRequest as error:
        raise typer.BadParameter(error.message, param_hint="--label") from None


def listing(name: str, show: Show) -> Callable[[Callable[..., Read]], Callable[..., None]]:
    """Makes a command of a function that takes the list's own filters and returns how it is read.

    The command has `--limit`, `--cursor`, `--watch`, `--token-file` and `--json` besides. `name` is the list's in the
    document.
    """

    def decorate(filtered: Callable[..., Read]) -> Callable[..., None]:
        @wraps(filtered)
        def command(
            *, limit: int, cursor: str | None, watch: bool, token_file: Path | None, json: bool, **filters: Any
        ) -> None:
            read = filtered(**filters)

            async def fetch(services: Services, who: Principal) -> dict[str, Any]:
                async with services.store.connection() as conn:
                    return await read(conn, who, Page(limit, cursor))

            look(fetch, show, rows(name), token_file, json=json, watch=watch)

        _sign(command, filtered)
        return command

    return decorate


def _common(
    limit: Limit = DEFAULT_ROWS,
    cursor: Cursor = None,
    watch: WatchFlag = False,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """What is added to every list."""


def _sign(command: Callable[..., None], filtered: Callable[..., Read]) -> None:
    """Gives the command the parameters of both, which are its options."""
    parameters = []
    for part in (filtered, _common):
        hints = get_type_hints(part, include_extras=True)
        for parameter in inspect.signature(part).parameters.values():
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
