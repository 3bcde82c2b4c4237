"""What the doctor finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import psycopg


class State(StrEnum):
    """`warn` is for what only a person can judge; `fail` is wrong whoever looks."""

    ok = "ok"
    warn = "warn"
    fail = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what was seen; `remedy` says what to do where it is not well."""

    name: str
    state: State
    found: str
    remedy: str | None = None

    @property
    def ok(self) -> bool:
        """Nothing that has to be put right."""
        return self.state is not State.fail

    def view(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "state": self.state, "found": self.found, "remedy": self.remedy}


def passed(name: str, found: str) -> Check:
    return Check(name, State.ok, found)


def warned(name: str, found: str, remedy: str) -> Check:
    return Check(name, State.warn, found, remedy)


def failed(name: str, found: str, remedy: str) -> Check:
    return Check(name, State.fail, found, remedy)


def judged(name: str, well: bool, found: str, remedy: str, *, otherwise: State = State.fail) -> Check:
    return passed(name, found) if well else Check(name, otherwise, found, remedy)


async def made(name: str, look: Callable[[], Awaitable[Check]]) -> Check:
    """A check, or that it could not be made: which is no reason to be at ease."""
    try:
        return await look()
    except psycopg.Error as error:
        found = f"could not be looked at: {' '.join(str(error).split())}"
        return failed(
            name, found, "give this user the right to read all of `signoff`, or look again when there is less load"
        )
