"""How long something that a person gives holds: until a time, or for some seconds from now."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from signoff.domain.errors import InvalidRequest

LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Period:
    """At most one of the two is given; with neither it has no end. Raises InvalidRequest."""

    until: datetime | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.until is not None and self.seconds is not None:
            raise InvalidRequest("give a time or a number of seconds, not both", field="expires_at")
        if self.until is not None and self.until.tzinfo is None:
            raise InvalidRequest("the time needs its zone, as in 2030-01-31T12:00:00Z", field="expires_at")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InvalidRequest("'seconds' must be a number above 0", field="seconds")

    @classmethod
    def read(cls, expires_at: Any, seconds: Any) -> Self:
        """As JSON has them. Raises InvalidRequest."""
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise InvalidRequest("'seconds' must be a number above 0", field="seconds")
        if seconds is not None and seconds > LONGEST.total_seconds():
            raise InvalidRequest(f"'seconds' is {LONGEST.days} days at most", field="seconds")
        return cls(None if expires_at is None else _moment(expires_at), seconds)

    @property
    def has_end(self) -> bool:
        return self.until is not None or self.seconds is not None

    def ends_at(self, now: datetime, most: timedelta = LONGEST) -> datetime | None:
        """Raises InvalidRequest for an end that is past, or further away than `most`."""
        if not self.has_end:
            return None
        lasts = self.until - now if self.until is not None else timedelta(seconds=min(self.seconds or 0, 1e11))
        if lasts <= timedelta(0):
            raise InvalidRequest("it would have ended before it begins", field="expires_at")
        if lasts > most:
            raise InvalidRequest(f"it may last {most.days} days at most", field="expires_at")
        return now + lasts


def _moment(text: Any) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequest("'expires_at' must be a time like 2030-01-31T12:00:00Z", field="expires_at") from None
