"""Canonical JSON, the digest of a call and the id of an operation; and the scrubbing of text.

The canonical form keeps apart what a tool could tell apart: `1`, `1.0` and `true` are three arguments, `0.0` and
`-0.0` two. Floats are written as Python writes them (the shortest text that reads back the same), integers exactly.
A digest therefore holds only while the arguments stay as they were: take it before they go through a store that
rewrites numbers (`jsonb` turns 1e16 into an integer and -0.0 into 0.0).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from signoff.domain.errors import UnreadableArguments

MAX_DEPTH = 100
SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**64 - 1
# CPython neither reads nor writes longer integers as JSON: they could be stored and never be read again.
_TOO_LONG = 10**4300
_REPLACEMENT = "\ufffd"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class _Path(NamedTuple):
    parent: _Path | None
    key: str | int
    depth: int


def canonical_json(value: object) -> bytes:
    """The one text of a JSON value: sorted keys, no spaces, UTF-8.

    Raises UnreadableArguments, naming the place, for anything that JSON can't hold exactly or a database can't store.
    """
    _check(value, None)
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:  # limits of this interpreter that are lower than ours
        raise UnreadableArguments(f"not canonical JSON: {error}", path="") from error
    return text.encode()


def call_digest(tool: str, args: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of exactly this tool with exactly these arguments. Raises UnreadableArguments."""
    return hashlib.sha256(canonical_json({"tool": tool, "args": dict(args)})).hexdigest()


def operation_id(lineage_root: str, message_id: str, ordinal: int, edits: int) -> str:
    """The idempotency key of a call: the same for each redelivery, resume, replay and fork, another for each edit."""
    encoded = canonical_json(["operation", lineage_root, message_id, ordinal, edits])
    return "op_" + hashlib.sha256(encoded).hexdigest()[:40]


def scrub(text: str) -> str:
    """The text with NUL and lone surrogates, which neither Postgres nor UTF-8 can hold, replaced by U+FFFD."""
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def scrub_value(value: Any) -> Any:
    """A JSON-like value with each text and key scrubbed; keys that become equal are kept apart.

    Raises UnreadableArguments for what is nested deeper than MAX_DEPTH.
    """
    return _scrubbed(value, 0)


def has_storable_integers(value: Any) -> bool:
    """False if an integer in it is beyond 64 bits: no checkpoint could hold it, and the thread could not go on."""
    if isinstance(value, dict):
        return all(has_storable_integers(part) for part in value.values())
    if isinstance(value, list | tuple):
        return all(has_storable_integers(part) for part in value)
    return not isinstance(value, int) or SMALLEST_INTEGER <= value <= LARGEST_INTEGER


def _scrubbed(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth >= MAX_DEPTH:
        raise UnreadableArguments(f"nested deeper than {MAX_DEPTH} levels", path="")
    if isinstance(value, dict):
        return _scrubbed_object(value, depth)
    return [_scrubbed(item, depth + 1) for item in value]


def _scrubbed_object(value: dict[Any, Any], depth: int) -> dict[Any, Any]:
    clean = {key: _scrubbed(item, depth + 1) for key, item in value.items() if _is_clean(key)}
    for key, item in value.items():
        if not _is_clean(key):
            free = scrub(key)
            while free in clean:
                free += _REPLACEMENT
            clean[free] = _scrubbed(item, depth + 1)
    return clean


def _is_clean(key: object) -> bool:
    return not isinstance(key, str) or _UNSTORABLE.search(key) is None


def _check(value: object, path: _Path | None) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if abs(value) >= _TOO_LONG:
            raise _unreadable(path, "an integer of more than 4300 digits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _unreadable(path, "not a finite number")
    elif isinstance(value, dict):
        _check_object(value, path)
    elif isinstance(value, (list, tuple)):
        _check_items(enumerate(value), path)
    else:
        raise _unreadable(path, f"a {type(value).__name__} is not JSON")


def _check_object(value: dict[Any, Any], path: _Path | None) -> None:
    for key in value:
        if not isinstance(key, str):
            raise _unreadable(path, f"the key {key!r:.40} is not text")
        _check_text(key, path)
    _check_items(value.items(), path)


def _check_items(items: Iterable[tuple[str | int, object]], path: _Path | None) -> None:
    depth = path.depth + 1 if path else 1
    if depth > MAX_DEPTH:
        raise _unreadable(None, f"nested deeper than {MAX_DEPTH} levels")
    for key, item in items:
        _check(item, _Path(path, key, depth))


def _check_text(text: str, path: _Path | None) -> None:
    if _UNSTORABLE.search(text):
        raise _unreadable(path, "text with a NUL or a lone surrogate")


def _unreadable(path: _Path | None, problem: str) -> UnreadableArguments:
    place = _place(path)
    return UnreadableArguments(f"{place or 'the value'}: {problem}", path=place)


def _place(path: _Path | None) -> str:
    keys: list[str | int] = []
    while path:
        keys.append(path.key)
        path = path.parent
    parts = (f"[{key}]" if isinstance(key, int) else f".{scrub(key)}" for key in reversed(keys))
    return "".join(parts).removeprefix(".")
