"""How commands are told a time."""

from __future__ import annotations

from datetime import UTC, datetime

import typer


def a_moment(text: str) -> datetime:
    """A time with its zone, as in 2030-01-31T12:00:00Z."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter("must be a time with its zone, as in 2030-01-31T12:00:00Z")
