"""How commands are told how long something holds: `--until` a time, or `--for` some time."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from signoff.domain.errors import InvalidRequest
from signoff.domain.periods import Period

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="When it ends, as in 2030-01-31T12:00:00Z")]
For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="How long it holds: 90s, 15m, 8h, 30d")]


def period(until: str | None, lasting: str | None) -> Period:
    """Raises typer.BadParameter."""
    try:
        return Period.read(until, None if lasting is None else _seconds(lasting))
    except InvalidRequest as error:
        raise typer.BadParameter(error.message, param_hint="--until / --for") from None


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if found is None:
        raise typer.BadParameter("must be like 90s, 15m, 8h or 30d", param_hint="--for")
    return int(found[1]) * SECONDS[found[2]]
