"""One entry of a job's story: when, what, who, about which things, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MOST_WORDS = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """`who` is None where nobody in particular did it. Of two at one time the lower `rank` came first."""

    at: datetime
    what: str
    who: str | None
    text: str = ""
    ids: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 0

    def view(self) -> dict[str, Any]:
        return {
            "at": self.at.astimezone(UTC).isoformat(),
            "what": self.what,
            "who": self.who,
            "ids": {name: str(id_) for name, id_ in self.ids.items() if id_ is not None},
            "text": self.text,
            "facts": {name: fact for name, fact in self.facts.items() if fact is not None},
        }


def moment_of(text: str) -> datetime:
    """A time as a view gives it."""
    return datetime.fromisoformat(text)


def short(text: str | None) -> str:
    """As much as a line of a story holds."""
    text = text or ""
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}…"
