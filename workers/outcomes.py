"""What a tool says of its outcome, by raising. Whatever else it raises says nothing: then nobody knows."""

from __future__ import annotations

from datetime import timedelta
from math import isnan

LONGEST_SECONDS = 366 * 86400.0


class Refused(Exception):
    """The provider says that it did nothing and never will. The agent is told."""


class NotApplied(Exception):
    """Nothing happened, for certain, and another try may succeed: after `retry_after` (or seconds), if given."""

    def __init__(self, message: str = "", *, retry_after: timedelta | float | None = None) -> None:
        super().__init__(message)
        seconds = retry_after.total_seconds() if isinstance(retry_after, timedelta) else retry_after
        known = seconds is not None and not isnan(seconds)
        self.retry_after = timedelta(seconds=min(max(0.0, seconds), LONGEST_SECONDS)) if known and seconds else None


class Rejected(Refused):
    """A person did not allow it, so it did not run: `reason` in their words, if they gave any, and `next_step` is
    "stop", "ask" or "revise"."""

    def __init__(self, message: str, *, reason: str | None, next_step: str, reviewer: str | None) -> None:
        super().__init__(message)
        self.reason = reason
        self.next_step = next_step
        self.reviewer = reviewer


class Unknown(Exception):
    """Nobody knows whether it happened. The same as any exception that is not one of these; to say it on purpose."""


class Changed(Exception):
    """Raised by a precheck: what the effect relies on is no longer so. The message says what has changed."""
