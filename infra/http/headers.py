"""`Idempotency-Key` and `Prefer`, as their standards write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS

LONGEST_WAIT_SECONDS = 60

_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_PLAIN = re.compile(r"[!#-+\--~]+")
_WAIT = re.compile(r'wait\s*=\s*(?:"([0-9]{1,9})"|([0-9]{1,9}))\s*(?:;.*)?', re.IGNORECASE | re.ASCII)


def read_idempotency_key(header: str | None) -> str | None:
    """The key, from the quoted form of the IETF draft or a plain word; None without the header.

    Raises:
        InvalidRequest: empty, too long, or neither form.
    """
    if header is None:
        return None
    value = header.strip()
    if quoted := _QUOTED.fullmatch(value):
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    else:
        key = value if _PLAIN.fullmatch(value) else ""
    if not key.strip() or len(key) > MAX_NAME_CHARACTERS:
        raise InvalidRequest(f'Idempotency-Key must be text like "8e03978e", at most {MAX_NAME_CHARACTERS} characters')
    return key


def read_wait(headers: Iterable[str]) -> int | None:
    """The seconds of `Prefer: wait=N`, capped; the first one counts. Preferences that can't be read are ignored."""
    for header in headers:
        for preference in header.split(","):
            if found := _WAIT.fullmatch(preference.strip()):
                return min(int(found[1] or found[2]), LONGEST_WAIT_SECONDS)
    return None
