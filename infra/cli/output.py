"""What the commands print: tables and screens for people, one JSON document for programs.

Much of it was written by a model or a stranger, and a person decides by what they see. So nothing of it may move the
cursor, change colours, or reorder the line: control and direction characters are shown as escapes.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document")]

PIPED_WIDTH = 100_000
_DANGEROUS = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def safe(value: object) -> str:
    """The value as text that only shows: `\\x1b` for an escape, `\\u202e` for a change of direction."""
    text = value if isinstance(value, str) else str(value)
    return "".join(
        char if char == "\n" or unicodedata.category(char) not in _DANGEROUS else _escape(char) for char in text
    )


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))


def print_line(text: str) -> None:
    typer.echo(safe(text))


def note(text: str) -> None:
    """For the person at the terminal; a program that reads our output does not get it."""
    typer.echo(safe(text), err=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One line a row when piped; on a terminal, cells fold and are never cut."""
    console = stdout_console()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else safe(cell).replace("\n", "\\n")) for cell in row))
    console.print(table)


def print_facts(facts: Mapping[str, object], indent: str = "") -> None:
    """Names and values, one a line; what is None is left out."""
    shown = {name: value for name, value in facts.items() if value is not None}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        typer.echo(f"{indent}{name:<{width}}  {hanging(value, len(indent) + width + 2)}")


def hanging(value: object, indent: int) -> str:
    """Text of several lines, each after the first under the first."""
    return safe(value).replace("\n", "\n" + " " * indent)


def moment(time: str | None) -> str | None:
    """A time as the views give it, to the second, in UTC."""
    return None if time is None else f"{time[:10]} {time[11:19]}Z"


def as_json_text(value: Any) -> str:
    """A value of JSON for a person to read, in their own letters."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def more(page: Mapping[str, Any]) -> None:
    """How to get the rest of a list, if there is more."""
    if page["next"] is not None:
        note(f"there is more: --cursor {page['next']}")


def stdout_console() -> Console:
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def _only_shows(char: str) -> bool:
    return char == "\n" or unicodedata.category(char) not in _DANGEROUS


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
