"""Checks as statements: how many rows are looked at, and which of them don't hold. Rows come one by one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.verifying import Checked

Connection = AsyncConnection[DictRow]
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Scope:
    """What a verification goes by: what has not settled for so long counts as stuck; how often a job may be claimed."""

    settled_for: timedelta
    max_tries: int

    def parameters(self) -> Mapping[str, Any]:
        return {"settled": self.settled_for, "max_tries": self.max_tries}


@dataclass(frozen=True, slots=True)
class SqlCheck:
    """`rows` is what stands behind FROM for all that is looked at; `bad` selects `subject` and `message` of what does
    not hold."""

    invariant: str
    name: str
    rows: str
    bad: str


async def run_check(conn: Connection, check: SqlCheck, scope: Scope) -> Checked:
    """In a transaction."""
    checked = Checked(check.invariant, check.name)
    parameters = scope.parameters()
    row = await (await conn.execute(f"SELECT count(*) AS rows FROM {check.rows}", parameters)).fetchone()
    assert row is not None
    checked.rows = row["rows"]
    async with aclosing(each(conn, check.bad, parameters)) as found:
        async for bad in found:
            checked.add(str(bad["subject"]), bad["message"])
    return checked


async def each(
    conn: Connection, query: str, parameters: Mapping[str, Any] | None = None, *, name: str = "signoff_verify"
) -> AsyncGenerator[DictRow, None]:
    """The rows of a query, however many: they stay in the server until they are asked for."""
    async with conn.cursor(name) as cursor:
        cursor.itersize = AT_ONCE
        await cursor.execute(query, parameters)
        async for row in cursor:
            yield row
