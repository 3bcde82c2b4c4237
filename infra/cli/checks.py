"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `remedy` says what to do where it is wrong."""

    name: str
    ok: bool
    found: str
    remedy: str | None = None


def passed(name: str, found: str) -> Check:
    return Check(name, True, found)


def failed(name: str, found: str, remedy: str) -> Check:
    return Check(name, False, found, remedy)


def judged(name: str, ok: bool, found: str, remedy: str) -> Check:
    return passed(name, found) if ok else failed(name, found, remedy)
