"""The audit as it is read: row by row with the seals, of one job, and what is not sealed yet."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.audit_chain import Row, Seal
from signoff.domain.audit_export import Sealed, read_body

Connection = AsyncConnection[DictRow]

# UTC, to the microsecond: nothing is lost, and the text does not depend on the session.
TIME = """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
ROW_COLUMNS = f"""position, {TIME.format("at")} AS at, act, actor, job_id::text AS job, body::text AS body,
    encode(substr(digests, 1, 32), 'hex') AS digest, nullif(encode(substr(digests, 33), 'hex'), '') AS shown"""

SEALS = f"""
SELECT number, {TIME.format("sealed_at")} AS at, encode(previous, 'hex') AS previous, positions, hashes,
    encode(hash, 'hex') AS hash, last_tx::text::numeric AS last_tx, last_position, era
FROM signoff.audit_seals WHERE number > %(after)s ORDER BY number
"""
# The rows of an era in the order of sealing. In the first there is no lowest one: somebody may have put it there.
ROWS = f"""
SELECT {ROW_COLUMNS}, tx::text::numeric AS tx FROM signoff.audit
WHERE position <= coalesce((SELECT min(era) FROM signoff.audit_seals WHERE era > %(era)s), 9223372036854775807){{}}
ORDER BY signoff.audit.tx, position
"""
OF_LATER_ERA = " AND position > %(era)s"
BEHIND = " AND (tx, position) > (%(tx)s::text::xid8, %(position)s)"
CURSOR = "SELECT last_tx::text AS tx, last_position AS position, era FROM signoff.audit_seals WHERE number = %s"
UNSEALED = """
WITH cursor AS (
    (SELECT number, last_tx, last_position, era FROM signoff.audit_seals ORDER BY number DESC LIMIT 1)
    UNION ALL SELECT 0, '0', 0, 0 ORDER BY number DESC LIMIT 1)
SELECT count(*) AS rows, coalesce(extract(epoch FROM clock_timestamp() - min(a.at)), 0)::float8 AS seconds
FROM cursor c JOIN signoff.audit a ON (a.tx, a.position) > (c.last_tx, c.last_position)
    AND (c.era = 0 OR a.position > c.era)
"""
OF_JOB = f"""
SELECT {ROW_COLUMNS} FROM signoff.audit WHERE job_id = %(job)s AND position > %(after)s
ORDER BY position LIMIT %(limit)s
"""

# Well beyond what a dispatcher that runs ever needs.
SEALED_LATE_SECONDS = 60

START: dict[str, Any] = {"tx": "0", "position": 0, "era": 0}


@dataclass(frozen=True, slots=True)
class Unsealed:
    """Rows that no seal holds yet, and the age of the oldest."""

    rows: int
    seconds: float


async def read_snapshot(conn: Connection) -> None:
    """For a transaction that reads much: it sees one moment, and its reader may be slow."""
    await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    await conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


async def sealed(conn: Connection, after: int = 0) -> AsyncGenerator[Sealed, None]:
    """Each seal behind `after`, with the rows that lie before its cursor and behind the one before.

    In a transaction with `read_snapshot`. A row that lies behind the last cursor is not sealed yet, and not among them.
    """
    start = await (await conn.execute(CURSOR, (after,))).fetchone() or START
    rows = _Rows(conn, start)
    async with conn.cursor("signoff_seals") as seals:
        seals.itersize = 50
        await seals.execute(SEALS, {"after": after})
        try:
            async for found in seals:
                yield _seal_of(found), await rows.up_to(found)
        finally:
            await rows.close()


async def unsealed(conn: Connection) -> Unsealed:
    row = await (await conn.execute(UNSEALED)).fetchone()
    assert row is not None
    return Unsealed(**row)


async def of_job(conn: Connection, job_id: UUID, after: int, limit: int) -> Sequence[Row]:
    """Rows of a job, oldest first, behind a position."""
    cursor = await conn.execute(OF_JOB, {"job": job_id, "after": after, "limit": limit})
    return [row_of(row) for row in await cursor.fetchall()]


def row_of(row: DictRow) -> Row:
    named = {name: row[name] for name in ("position", "at", "act", "actor", "job", "digest", "shown")}
    return Row(**named, body=read_body(row["body"]))


def _seal_of(row: DictRow) -> Seal:
    raw = row["hashes"]
    hashes = [raw[place : place + 32].hex() for place in range(0, len(raw), 32)]
    return Seal(row["number"], row["at"], row["previous"], row["positions"], hashes, row["hash"])


class _Rows:
    """The rows in the order of sealing, handed out up to one cursor after the other."""

    def __init__(self, conn: Connection, start: dict[str, Any]) -> None:
        self._conn = conn
        self._era = start["era"]
        self._rows = _rows_of_era(conn, start)
        self._next: DictRow | None = None

    async def up_to(self, cursor: DictRow) -> list[Row]:
        found: list[Row] = []
        if cursor["era"] != self._era:
            # What is left of the era before lies behind all of its seals: it goes with the next.
            found = [row_of(row) async for row in self._until(None)]
            await self.close()
            self._era = cursor["era"]
            self._rows = _rows_of_era(self._conn, {**START, "era": self._era})
        last = (cursor["last_tx"], cursor["last_position"])
        return found + [row_of(row) async for row in self._until(last)]

    async def close(self) -> None:
        await self._rows.aclose()

    async def _until(self, last: tuple[Any, int] | None) -> AsyncIterator[DictRow]:
        while (row := self._next or await anext(self._rows, None)) is not None:
            self._next = row
            if last is not None and (row["tx"], row["position"]) > last:
                return
            self._next = None
            yield row


async def _rows_of_era(conn: Connection, start: dict[str, Any]) -> AsyncGenerator[DictRow, None]:
    async with conn.cursor(f"signoff_audit_{start['era']}") as cursor:
        cursor.itersize = 1000
        narrowed = (OF_LATER_ERA if start["era"] else "") + (BEHIND if start["position"] else "")
        await cursor.execute(ROWS.format(narrowed), start)
        async for row in cursor:
            yield row
