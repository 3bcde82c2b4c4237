"""`Retry-After`: seconds, or a date of HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def read_retry_after(header: str | None, now: datetime) -> timedelta | None:
    """How long to wait, never less than nothing; None without the header, or where it can't be read."""
    if header is None:
        return None
    value = header.strip()
    if _SECONDS.fullmatch(value):
        return timedelta(seconds=int(value))
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(timedelta(), (at if at.tzinfo else at.replace(tzinfo=UTC)) - now)
