"""The ladder of a review: who is reminded, and who is asked besides or instead, while nobody decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Rung:
    """A step of the ladder, so long after the request. Without reviewers it reminds those who are asked already.

    With `replace` its reviewers take the place of the earlier ones, else they come to them.
    """

    after_seconds: float
    reviewers: tuple[str, ...] = ()
    replace: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON types alone."""
        return {"after_seconds": self.after_seconds, "reviewers": list(self.reviewers), "replace": self.replace}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(float(raw["after_seconds"]), tuple(raw.get("reviewers", ())), raw.get("replace", False))


def ladder(reminders: Iterable[float], escalation: Iterable[Rung]) -> tuple[Rung, ...]:
    """Reminders and escalations together, in order of time."""
    return tuple(sorted([*map(Rung, reminders), *escalation], key=lambda rung: rung.after_seconds))
