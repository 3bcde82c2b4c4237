"""How commands are told a time."""

from __future__ import annotations

from datetime import UTC, datetime

import typer


def a_moment(text: str) -> datetime:
    """A time with its zone, as in 2030-01-31T12:00:00Z."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise typer.BadParameter("must be a time with its zone, as in 2030-01-31T12:00:00Z")
    return found.astimezone(UTC)
