"""How commands are told of a provider's export."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from signoff.infra.cli.moments import a_moment
from signoff.infra.reconcile.exports import Columns, Format, format_of

ReferenceColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Where the export has the provider's own id of what it did")
]
StatusColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Where the export says what became of it")]
KeyColumn = Annotated[
    str, typer.Option(metavar="NAME", help="Where the export has the idempotency key that it was sent")
]
Applied = Annotated[
    list[str] | None,
    typer.Option("--applied-status", metavar="VALUE", help="A status that means that it was done; repeatable"),
]
FormatOption = Annotated[Format | None, typer.Option("--format", help="If the file's name does not say it")]
CompleteSince = Annotated[
    datetime | None,
    typer.Option("--since", metavar="TIME", parser=a_moment, help="From when on the export is complete"),
]
CompleteUntil = Annotated[
    datetime | None, typer.Option("--until", metavar="TIME", parser=a_moment, help="Until when the export is complete")
]
ExportFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The provider's export", exists=True, dir_okay=False, readable=True)
]


def columns_of(key: str, reference: str | None, status: str | None, applied: Sequence[str] | None) -> Columns:
    """Raises typer.BadParameter: a status means nothing by itself."""
    if (status is None) != (not applied):
        raise typer.BadParameter("--status-column and --applied-status go together")
    return Columns(key, reference, status, frozenset(applied or ()))


def chosen_format(file: Path, given: Format | None) -> Format:
    """Raises ExportUnreadable."""
    return given or format_of(file)
