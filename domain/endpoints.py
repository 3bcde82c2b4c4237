"""Endpoints: programs that pass on signed decisions, each with the people that it may speak for. Rules only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from signoff.domain.authority import Principal, is_among
from signoff.domain.canonical import scrub
from signoff.domain.errors import EndpointMayNotSpeak, InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS

EVERYBODY = "*"
PERSON = "@"
MOST_VOICES = 200

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`speaks_for` holds groups, and persons as `@name`; EVERYBODY stands alone. `dialect` is its default, if any."""

    name: str
    speaks_for: frozenset[str]
    dialect: str | None = None


def may_speak_for(endpoint: Endpoint, who: Principal) -> bool:
    """True if `who` is named, or is in one of the groups, now."""
    return EVERYBODY in endpoint.speaks_for or is_among(who, endpoint.speaks_for)


def require_voice(endpoint: Endpoint, who: Principal) -> None:
    """Raises EndpointMayNotSpeak; somebody unknown is refused like somebody of another group."""
    if not may_speak_for(endpoint, who):
        raise EndpointMayNotSpeak(f"the endpoint {endpoint.name!r} may not speak for {who.name}")


def read_endpoint_name(value: Any) -> str:
    """Raises InvalidRequest for what can't be part of an address."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidRequest("an endpoint's name is of letters, digits, '.', '_' and '-', 100 at most", field="name")
    return value


def read_speaks_for(value: Any) -> frozenset[str]:
    """Raises InvalidRequest unless it is a list of groups and `@persons`, or EVERYBODY alone."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_VOICES or not all(map(_is_voice, value)):
        wanted = f"a list of 1 to {MOST_VOICES} groups, or persons as '{PERSON}name'"
        raise InvalidRequest(f"'speaks_for' must be {wanted}", field="speaks_for")
    if EVERYBODY in value and len(value) > 1:
        raise InvalidRequest(f"'{EVERYBODY}' in 'speaks_for' means everybody: it stands alone", field="speaks_for")
    return frozenset(value)


def _is_voice(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS or scrub(value) != value:
        return False
    return bool(value.removeprefix(PERSON).strip())
