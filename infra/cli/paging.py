"""The part of a list that is asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from signoff.infra.postgres.views import DEFAULT_ROWS, MOST_ROWS

Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST_ROWS, help="How many rows")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on behind an earlier page")]

__all__ = ["DEFAULT_ROWS", "Cursor", "Limit"]
