"""What needs a person now, and the command that settles it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

LETTERS = {
    "message": "messages that could not be read",
    "effect": "effects out of tries",
    "run": "runs that can't go on",
    "webhook": "webhooks that were not taken",
}


@dataclass(frozen=True, slots=True)
class Need:
    """`oldest_at` is since when the oldest of them waits."""

    what: str
    count: int
    oldest_at: str | None
    command: str

    def view(self) -> dict[str, Any]:
        return asdict(self)


def needs(found: Mapping[str, Any]) -> list[Need]:
    """The most pressing first: what may have happened twice, what nobody knows, what has stopped, what waits."""
    return [need for need in _all(found) if need.count]


def _all(found: Mapping[str, Any]) -> Iterator[Need]:
    yield _need("alarms: it may have happened twice", found["alarms"], "signoff alarms list")
    yield _need("effects in doubt", found["doubts"], "signoff effects show {oldest}")
    yield _need("findings that wait for a second person", found["settlements"], "signoff effects show {oldest}")
    yield _need("refused effects that hold their job", found["held_refusals"], "signoff effects show {oldest}")
    for kind, words in LETTERS.items():
        yield _need(words, found["dead_letters"][kind], f"signoff dead-letters list --kind {kind}")
    yield _need("jobs that are due for over a minute", found["overdue"], "signoff doctor")
    yield _need("reviews that wait", found["reviews"], "signoff reviews show {oldest}")


def _need(what: str, one: Mapping[str, Any], command: str) -> Need:
    return Need(what, one["count"], one["oldest_at"], command.format(oldest=one.get("oldest")))
