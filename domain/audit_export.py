"""The audit as JSON Lines: a line for each seal, followed by a line for each of its rows.

    {"seal": 1, "at": …, "previous": …, "positions": […], "hashes": […], "hash": …}
    {"position": 1, "at": …, "act": …, "actor": …, "job": …, "digest": …, "shown": …, "body": {…}, "hash": …}

The hash of a line is over the canonical JSON of the rest of it: nothing else is needed to verify one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from signoff.domain.audit_chain import Finding, Row, Seal, Wrong, row_document, seal_document

SEAL_KEYS = frozenset({"seal", "at", "previous", "positions", "hashes", "hash"})
ROW_KEYS = frozenset({"position", "at", "act", "actor", "job", "digest", "shown", "body", "hash"})

Sealed = tuple[Seal, list[Row]]


class _Unreadable(ValueError):
    """A line that no export holds."""


def write_lines(seal: Seal, rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a seal and its rows."""
    yield _line({**seal_document(seal), "hash": seal.hash})
    hashes = dict(zip(seal.positions, seal.hashes, strict=False))
    for row in rows:
        yield _line({**row_document(row), "hash": hashes.get(row.position, "")})


def read_lines(lines: Iterable[str]) -> Iterator[Sealed | Finding]:
    """Each seal with the rows that follow it; what can't be read, or belongs to no seal, as a finding."""
    seal: Seal | None = None
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            read = _read(line)
        except ValueError as error:
            yield Finding(Wrong.unreadable, f"line {number}: {error}")
            continue
        if isinstance(read, Row):
            if seal is None:
                yield Finding(Wrong.row_inserted, f"line {number}: no seal comes before it", None, read.position)
            rows.append(read)
            continue
        if seal is not None:
            yield seal, rows
        seal, rows = read, []
    if seal is not None:
        yield seal, rows


def read_body(text: str) -> Mapping[str, Any] | None:
    """A row's body from its text; None for what is not one plain JSON object, with each key once."""
    try:
        body = _strict(text)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


def _read(line: str) -> Seal | Row:
    document = _strict(line)
    keys = document.keys() if isinstance(document, dict) else None
    if keys == ROW_KEYS:
        return _row(document)
    if keys == SEAL_KEYS:
        return _seal(document)
    raise _Unreadable("neither a row nor a seal")


def _row(document: Mapping[str, Any]) -> Row:
    texts = [document[key] for key in ("at", "act", "actor", "hash")]
    texts += [document[key] for key in ("job", "digest", "shown") if document[key] is not None]
    if not (_are(int, document["position"]) and _are(str, *texts)):
        raise _Unreadable("not a row")
    named = {key: document[key] for key in ROW_KEYS - {"body", "hash"}}
    body = document["body"] if isinstance(document["body"], dict) else None
    return Row(**named, body=body, claimed=document["hash"])


def _seal(document: Mapping[str, Any]) -> Seal:
    texts = [document[key] for key in ("at", "previous", "hash")]
    positions, hashes = document["positions"], document["hashes"]
    if not (_are(int, document["seal"]) and _are(str, *texts) and _are(list, positions, hashes)):
        raise _Unreadable("not a seal")
    if not (_are(int, *positions) and _are(str, *hashes) and len(positions) == len(hashes)):
        raise _Unreadable("not a seal")
    at, previous, hash_ = texts
    return Seal(document["seal"], at, previous, positions, hashes, hash_)


def _are(kind: type, *values: object) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def _strict(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_each_key_once, parse_constant=_no_constant)
    except RecursionError:
        raise _Unreadable("nested too deeply") from None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _Unreadable("a key twice")
    return document


def _no_constant(name: str) -> Any:
    raise _Unreadable(f"{name} is not JSON")
