"""Checks that count rows which should not be there: each is a statement, and words for what it finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.infra.cli.checks import Check, State, judged, made

# Well beyond what a dispatcher that runs ever needs.
PATIENCE_SECONDS = 30

Connection = AsyncConnection[DictRow]


@dataclass(frozen=True, slots=True)
class Rows:
    """`sql` gives `count`, `seconds` (how long the oldest) and `example`; it may name `patience`."""

    name: str
    sql: str
    what: str
    remedy: str
    otherwise: State = State.fail


async def check_rows(conn: Connection, looks: Iterable[Rows]) -> Sequence[Check]:
    return [await made(look.name, partial(_check, conn, look)) for look in looks]


async def _check(conn: Connection, look: Rows) -> Check:
    row = await one(conn, look.sql, {"patience": PATIENCE_SECONDS})
    return judged(look.name, row["count"] == 0, _words(row, look.what), look.remedy, otherwise=look.otherwise)


def _words(row: DictRow, what: str) -> str:
    if row["count"] == 0:
        return f"none {what}"
    example = f": {row['example']}" if row["example"] is not None else ""
    return f"{row['count']} {what}, the oldest for {row['seconds']:.0f} s{example}"


async def one(conn: Connection, sql: str, parameters: Any = None) -> DictRow:
    row = await (await conn.execute(sql, parameters)).fetchone()
    assert row is not None
    return row
