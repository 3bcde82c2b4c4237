"""Dead letters for people to read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from signoff.infra.cli.output import moment, more, print_facts, print_line, print_table

View = Mapping[str, Any]
BYTES_A_LINE = 32


def print_letters(page: View) -> None:
    columns = ("letter", "about", "agent", "attempts", "since", "error")
    print_table(columns, [_row(letter) for letter in page["dead_letters"]])
    more(page)


def print_letter(letter: View) -> None:
    """What it is, every error, its bytes, and the commands that settle it."""
    print_facts(
        {
            "letter": letter["id"],
            "about": letter["about"],
            "agent": letter["agent"],
            "job": letter["job_id"],
            "since": moment(letter["since"]),
            "attempts": letter["attempts"],
            "error": _error(letter),
            "settled": _settled(letter),
        }
    )
    if letter["errors"]:
        print_line("\nErrors")
        for error in letter["errors"]:
            by = f"  by {error['who']}" if error["who"] else ""
            print_line(f"  {moment(error['at']) or 'never'}  {error['text']}{by}".replace("\n", "\n    "))
    print_line("\nBody")
    print_line(_body(letter["body"]))
    if letter["settlement"] is None:
        print_line("\nTo settle it:")
        for command in commands(letter):
            print_line(f"  signoff {command}")


def commands(letter: View) -> list[str]:
    body = " --body FILE" if letter["kind"] == "message" else ""
    substitute = " --substitute '…'" if letter["kind"] == "effect" else ""
    look = [f"jobs story {letter['job_id']}"] if letter["job_id"] else []
    return [
        *look,
        f"dead-letters requeue {letter['id']}{body} --reason '…'",
        f"dead-letters discard {letter['id']}{substitute} --reason '…'",
    ]


def _row(letter: View) -> tuple[object, ...]:
    names = ("id", "about", "agent", "attempts")
    return (*(letter[name] for name in names), moment(letter["since"]), _error(letter))


def _error(letter: View) -> str:
    error = letter["error"]
    return f"{error['code']}: {error['message']}" if error["message"] else str(error["code"])


def _settled(letter: View) -> str | None:
    if letter["settlement"] is None:
        return None
    by = f" by {letter['settled_by']} at {moment(letter['settled_at'])}" if letter["settled_by"] else ""
    return f"{letter['settlement']}{by}"


def _body(encoded: str | None) -> str:
    """As text where it is text, else in hex."""
    if encoded is None:
        return "  no longer kept"
    raw = base64.b64decode(encoded)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        lines = (raw[place : place + BYTES_A_LINE].hex(" ") for place in range(0, len(raw), BYTES_A_LINE))
        return "\n".join(lines)
