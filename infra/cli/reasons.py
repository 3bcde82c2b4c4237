"""What every operator's act has: `--reason`, and `--request-id`, by which it counts once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from signoff.domain.canonical import scrub
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.operator_acts import MAX_REASON_CHARACTERS


def text_of(most: int) -> Callable[[str | None], str | None]:
    """The callback of an option that is text of at most so many characters."""

    def check(value: str | None) -> str | None:
        if value is not None and (not value.strip() or len(value) > most or scrub(value) != value):
            raise typer.BadParameter(f"must be text of 1 to {most} characters")
        return value

    return check


Reason = Annotated[str, typer.Option(help="Why; it stays in the record", callback=text_of(MAX_REASON_CHARACTERS))]
RequestId = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="The same act with the same id is done once", callback=text_of(MAX_NAME_CHARACTERS)
    ),
]
