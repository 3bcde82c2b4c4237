"""How long what is replaced goes on beside what takes its place."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

LONGEST = timedelta(days=30)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_overlap(text: str) -> timedelta:
    """Raises typer.BadParameter."""
    found = re.fullmatch(r"([0-9]{1,7})([smhd])", text)
    overlap = timedelta(**{UNITS[found[2]]: int(found[1])}) if found else LONGEST * 2
    if text == "0":
        overlap = timedelta(0)
    if overlap > LONGEST:
        raise typer.BadParameter(f"must be like 0, 90s, 15m, 24h or 7d, and {LONGEST.days} days at most")
    return overlap


def overlap_words(text: str) -> str:
    return f"in {text}" if read_overlap(text) else "now"


def _readable(text: str) -> str:
    read_overlap(text)
    return text


Overlap = Annotated[
    str,
    typer.Option(metavar="TIME", callback=_readable, help="How long the old one is still accepted: 0, 15m, 24h, 7d"),
]
