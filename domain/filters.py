"""What lists are narrowed by, as a person says it: an age like `90s`, `15m`, `2h`, `30d`; a label like `team=eu`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from signoff.domain.errors import InvalidRequest

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = timedelta(days=36500)


@dataclass(frozen=True, slots=True)
class Age:
    """At least so old, and less than so old; None stands for any."""

    older_than: timedelta | None = None
    newer_than: timedelta | None = None


ANY_AGE = Age()


def parse_span(text: str) -> timedelta:
    """Raises InvalidRequest."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text, re.ASCII)
    if found is None:
        raise InvalidRequest("a time must be like 90s, 15m, 2h or 30d")
    return min(timedelta(seconds=int(found[1]) * _SECONDS[found[2]]), _LONGEST)


def parse_label(text: str) -> tuple[str, str]:
    """NAME=VALUE. Raises InvalidRequest."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRequest(f"a label must be NAME=VALUE, not {text!r}")
    return name, value
