"""The rows of an export by operation, in a file of their own that goes when it is closed: exports may be large."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby

from signoff.domain.reconciling import Record

SCHEMA = """
CREATE TABLE records (operation TEXT, line INTEGER, key TEXT, reference TEXT, applied INTEGER);
CREATE TABLE seen (operation TEXT PRIMARY KEY);
"""
FIELDS = "line, key, reference, applied"


class Kept:
    """`count` rows with a key; `without_key` rows are none of ours."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.count = 0
        self.without_key = 0

    def fill(self, records: Iterable[Record | None]) -> None:
        self._database.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", self._rows(records))
        self._database.execute("CREATE INDEX by_operation ON records (operation)")

    def of(self, operation_id: str) -> list[Record]:
        """Its rows. It counts as seen."""
        self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (operation_id,))
        return self._read("operation = ? ORDER BY line", operation_id)

    def unseen(self) -> Iterator[tuple[str, list[Record]]]:
        """What `of` was not asked for: by operation, or by key where that is none of ours."""
        rows = self._database.execute(
            f"SELECT operation, {FIELDS} FROM records WHERE operation NOT IN (SELECT operation FROM seen)"
            " ORDER BY operation, line"
        )
        for operation, own in groupby(rows, key=lambda row: row[0]):
            yield operation, [_record(row[1:]) for row in own]

    def _read(self, condition: str, *values: str) -> list[Record]:
        rows = self._database.execute(f"SELECT {FIELDS} FROM records WHERE {condition}", values)
        return [_record(row) for row in rows]

    def _rows(self, records: Iterable[Record | None]) -> Iterator[tuple[str, int, str, str | None, bool]]:
        for record in records:
            if record is None:
                self.without_key += 1
                continue
            self.count += 1
            yield record.operation_id or record.key, record.line, record.key, record.reference, record.applied


@contextmanager
def kept(records: Iterable[Record | None]) -> Iterator[Kept]:
    """Raises what reading the records raises, before anything can be asked of it."""
    # The empty name: a file that has none, and is gone with the connection.
    with closing(sqlite3.connect("")) as database:
        database.executescript(SCHEMA)
        held = Kept(database)
        held.fill(records)
        yield held


def _record(row: tuple[int, str, str | None, int]) -> Record:
    line, key, reference, applied = row
    return Record(line, key, reference, bool(applied))
