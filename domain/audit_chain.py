"""The chain of the audit: what each hash is made of, and what it shows to be wrong. Pure, so an export is enough.

A row's hash is SHA-256 over the canonical JSON of `{"position", "at", "act", "actor", "job", "digest", "shown",
"body"}`; a seal's over that of `{"seal", "at", "previous", "positions", "hashes"}`, where `previous` is the hash of the
seal before it, 64 zeros for the first. Hashes are in hex. Whoever keeps the hash of the newest seal keeps the whole
audit up to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from signoff.domain.canonical import canonical_json
from signoff.domain.errors import UnreadableArguments

NO_HASH = "0" * 64


class Wrong(StrEnum):
    """What may be wrong with a chain."""

    row_edited = "row_edited"
    row_removed = "row_removed"
    row_inserted = "row_inserted"
    row_moved = "row_moved"
    seal_changed = "seal_changed"
    seal_removed = "seal_removed"
    seal_misplaced = "seal_misplaced"
    head_missing = "head_missing"
    head_differs = "head_differs"
    unreadable = "unreadable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where: the number of a seal, the position of a row, or both."""

    wrong: Wrong
    message: str
    seal: int | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One act. `body` is None where there is something that is not one plain JSON object.

    `claimed` is the hash that an export gives beside it.
    """

    position: int
    at: str
    act: str
    actor: str
    job: str | None
    digest: str | None
    shown: str | None
    body: Mapping[str, Any] | None
    claimed: str | None = None


@dataclass(frozen=True, slots=True)
class Seal:
    """Rows that were sealed together, in this order."""

    number: int
    at: str
    previous: str
    positions: Sequence[int]
    hashes: Sequence[str]
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The newest seal as it was seen once, to be kept elsewhere."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def read_head(text: str) -> Head:
    """Raises ValueError for what `str(head)` never gives."""
    if not re.fullmatch(r"[1-9][0-9]{0,17}:[0-9a-f]{64}", text):
        raise ValueError(text)
    number, _, hash_ = text.partition(":")
    return Head(int(number), hash_)


def row_document(row: Row) -> dict[str, Any]:
    """What a row's hash is made of."""
    return {
        "position": row.position,
        "at": row.at,
        "act": row.act,
        "actor": row.actor,
        "job": row.job,
        "digest": row.digest,
        "shown": row.shown,
        "body": row.body,
    }


def seal_document(seal: Seal) -> dict[str, Any]:
    """What a seal's hash is made of."""
    return {
        "seal": seal.number,
        "at": seal.at,
        "previous": seal.previous,
        "positions": list(seal.positions),
        "hashes": list(seal.hashes),
    }


def hash_of(document: Mapping[str, Any]) -> str:
    """Raises UnreadableArguments for what no audit can hold."""
    return hashlib.sha256(canonical_json(document)).hexdigest()


def next_seal(after: Head | None, at: str, rows: Sequence[Row]) -> Seal:
    """These rows, sealed behind `after`."""
    number, previous = (after.number + 1, after.hash) if after else (1, NO_HASH)
    positions, hashes = [row.position for row in rows], [hash_of(row_document(row)) for row in rows]
    unsigned = Seal(number, at, previous, positions, hashes, "")
    return Seal(number, at, previous, positions, hashes, hash_of(seal_document(unsigned)))


class Verifier:
    """Goes along a chain, seal by seal. Afterwards `rows`, `first` and `head` say what it has seen."""

    def __init__(self, kept: Head | None = None) -> None:
        """With `kept`, a head that was kept elsewhere, a chain that was cut or written anew is found out."""
        self._kept = kept
        self._kept_seen = False
        self.rows = 0
        self.first: int | None = None
        self.head: Head | None = None

    def add(self, seal: Seal, rows: Sequence[Row]) -> Iterator[Finding]:
        """What is wrong with the next seal, and with the rows found between it and the seal before."""
        yield from self._place(seal)
        if not _has_hash(seal_document(seal), seal.hash):
            yield Finding(Wrong.seal_changed, "its hash does not fit what it says", seal.number)
        yield from _compare(seal, rows)
        yield from self._compare_with_kept(seal.number, seal.hash)
        self.rows += len(rows)
        self.head = Head(seal.number, seal.hash)

    def end(self) -> Iterator[Finding]:
        """What can only be said of the whole."""
        if self._kept and not self._kept_seen:
            there = f"there are seals {self.first} to {self.head.number} only" if self.head else "there is no seal"
            yield Finding(Wrong.head_missing, f"its hash was kept, and {there}", self._kept.number)

    def _place(self, seal: Seal) -> Iterator[Finding]:
        if self.head is None:
            self.first = seal.number
            # An export may begin later: then this is the hash of the seal that it follows.
            yield from self._compare_with_kept(seal.number - 1, seal.previous)
            if seal.number == 1 and seal.previous != NO_HASH:
                yield Finding(Wrong.seal_changed, "the first seal follows none, and says that it does", 1)
        elif seal.number > self.head.number + 1:
            missing = f"seals {self.head.number + 1} to {seal.number - 1} are missing before it"
            yield Finding(Wrong.seal_removed, missing, seal.number)
        elif seal.number <= self.head.number:
            yield Finding(Wrong.seal_misplaced, f"it comes behind seal {self.head.number}", seal.number)
        elif seal.previous != self.head.hash:
            yield Finding(Wrong.seal_changed, f"it does not follow seal {self.head.number} as that is now", seal.number)

    def _compare_with_kept(self, number: int, hash_: str) -> Iterator[Finding]:
        if self._kept and self._kept.number == number:
            self._kept_seen = True
            if self._kept.hash != hash_:
                yield Finding(Wrong.head_differs, "it is not the seal whose hash was kept", number)


def _compare(seal: Seal, rows: Sequence[Row]) -> Iterator[Finding]:
    places = {position: place for place, position in enumerate(seal.positions)}
    reached, seen = -1, set[int]()
    for row in rows:
        place = places.get(row.position)
        if place is None or row.position in seen:
            yield Finding(Wrong.row_inserted, "no seal holds it", seal.number, row.position)
            continue
        seen.add(row.position)
        if place < reached:
            yield Finding(Wrong.row_moved, "it was sealed in another order", seal.number, row.position)
        reached = max(reached, place)
        sealed = seal.hashes[place] if place < len(seal.hashes) else ""
        fits = row.body is not None and row.claimed in (None, sealed) and _has_hash(row_document(row), sealed)
        if not fits:
            yield Finding(Wrong.row_edited, "it is not what was sealed", seal.number, row.position)
    for position in sorted(places.keys() - seen):
        yield Finding(Wrong.row_removed, "it was sealed and is gone", seal.number, position)


def _has_hash(document: Mapping[str, Any], hash_: str) -> bool:
    try:
        return hash_of(document) == hash_
    except UnreadableArguments:
        return False
