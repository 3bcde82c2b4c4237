"""Reading a provider's export: CSV, JSON or JSON Lines. What can't be read is refused as a whole, with its lines."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from signoff.domain.errors import ExportUnreadable
from signoff.domain.reconciling import Record

MOST_BAD_LINES = 20
BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


class Format(StrEnum):
    csv = "csv"
    json = "json"
    jsonl = "jsonl"


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the export says what. Without `status` every row is something that was applied; with it, those whose
    status is one of `applied`."""

    key: str = "idempotency_key"
    reference: str | None = None
    status: str | None = None
    applied: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        return [name for name in (self.key, self.reference, self.status) if name is not None]


class _BadRow(Exception):
    """One row can't be read."""


def format_of(path: Path) -> Format:
    """By its name. Raises ExportUnreadable."""
    try:
        return Format({"ndjson": "jsonl"}.get(path.suffix.lower()[1:], path.suffix.lower()[1:]))
    except ValueError:
        raise ExportUnreadable(f"{path.name}: say with --format what it is: csv, json or jsonl") from None


def digest_of(path: Path) -> str:
    """SHA-256 of the file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_export(path: Path, format_: Format, columns: Columns) -> Iterator[Record | None]:
    """Each row, one after the other; None for one without a key, which is none of ours.

    Raises:
        ExportUnreadable: at the end, naming the lines that can't be read; or at once, if nothing can be.
    """
    bad: list[str] = []
    with path.open(encoding=_encoding(path), newline="") as file:
        for line, row in _rows(file, format_, columns):
            try:
                yield _record(line, row, columns)
            except _BadRow as problem:
                bad.append(f"line {line}: {problem}")
                if len(bad) == MOST_BAD_LINES:
                    break
    if bad:
        raise ExportUnreadable("; ".join([*bad, *(["and perhaps more"] if len(bad) == MOST_BAD_LINES else [])]))


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(3)
    return next((name for bom, name in BOMS if start.startswith(bom)), "utf-8")


def _rows(file: TextIO, format_: Format, columns: Columns) -> Iterator[tuple[int, Any]]:
    """Line numbers and what is on them. Raises ExportUnreadable."""
    read = {Format.csv: _csv_rows, Format.json: _json_rows, Format.jsonl: _json_lines}[format_]
    line = 0
    try:
        for line, row in read(file, columns):
            yield line, row
    except UnicodeDecodeError as error:
        raise ExportUnreadable(f"after line {line}: it is no {error.encoding} text") from None
    except csv.Error as error:
        raise ExportUnreadable(f"after line {line}: {error}") from None


def _csv_rows(file: TextIO, columns: Columns) -> Iterator[tuple[int, Any]]:
    reader = csv.reader(file, strict=True)
    header = next(reader, [])
    missing = [name for name in columns.names if name not in header]
    if missing:
        raise ExportUnreadable(f"there is no column {missing[0]!r}; its columns are {', '.join(header) or 'none'}")
    for row in reader:
        if row:
            fits = len(row) == len(header)
            yield reader.line_num, dict(zip(header, row, strict=True)) if fits else f"{len(row)} columns"


def _json_lines(file: TextIO, columns: Columns) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(file, start=1):
        if text.strip():
            yield line, _parsed(text)


def _json_rows(file: TextIO, columns: Columns) -> Iterator[tuple[int, Any]]:
    """One array of objects: read at once, so a large export is better as JSON Lines. Its lines are its elements."""
    document = _parsed(file.read())
    if not isinstance(document, list):
        raise ExportUnreadable("it is no JSON array of objects")
    yield from enumerate(document, start=1)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return "no JSON"


def _record(line: int, row: Any, columns: Columns) -> Record | None:
    if not isinstance(row, Mapping):
        raise _BadRow(f"it is {row}" if isinstance(row, str) else "it is no object")
    key = _text(row, columns.key)
    status = _text(row, columns.status) if columns.status is not None else None
    reference = _text(row, columns.reference) if columns.reference is not None else None
    if not key:
        return None
    return Record(line, key, reference or None, columns.status is None or status in columns.applied)


def _text(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    if value is None:
        return ""
    if isinstance(value, bool | dict | list):
        raise _BadRow(f"{column!r} is no text")
    return str(value).strip()
