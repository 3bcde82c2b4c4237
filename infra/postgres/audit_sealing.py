"""Sealing: rows that were committed are chained behind those sealed before. No writer waits for it.

Rows go in the order of (transaction, position), and only those that no running transaction can still precede: what
turns up behind the cursor later was never written in the way that acts are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.audit_chain import Head, Row, next_seal
from signoff.infra.postgres.audit import ROW_COLUMNS, START, TIME, row_of

SEALER_LOCK = 7_316_428_590_113
PAUSE_SECONDS = 1.0

# On its own: what is read after it sees what the sealer before has committed.
HOLD = "SELECT pg_try_advisory_xact_lock(%s) AS held"

# In one server transactions only grow. Where the last one that was sealed has yet to come, this is another server.
LAST = """
SELECT number, encode(hash, 'hex') AS hash, last_tx::text AS tx, last_position AS position, era,
    last_tx >= pg_snapshot_xmax(pg_current_snapshot()) AS moved,
    sealed_at > clock_timestamp() - make_interval(secs => %(pause)s) AND cardinality(positions) < %(limit)s AS fresh
FROM signoff.audit_seals ORDER BY number DESC LIMIT 1
"""
# What is seen and has yet to come was written in the server that this one was restored from.
SETTLED = f"""
SELECT {ROW_COLUMNS}, tx::text AS tx, {TIME.format("clock_timestamp()")} AS now FROM signoff.audit
WHERE (tx, position) > (%(tx)s::text::xid8, %(position)s) AND (%(era)s = 0 OR position > %(era)s)
    AND (tx < pg_snapshot_xmin(pg_current_snapshot()) OR tx >= pg_snapshot_xmax(pg_current_snapshot()))
ORDER BY signoff.audit.tx, position LIMIT %(limit)s
"""
NEWEST_SEALED = "SELECT max(position) AS era FROM signoff.audit_seals, unnest(positions) AS position"
KEEP = """
INSERT INTO signoff.audit_seals
    (number, sealed_at, positions, hashes, previous, hash, last_tx, last_position, era)
VALUES (%(number)s, %(at)s, %(positions)s, %(hashes)s, decode(%(previous)s, 'hex'), decode(%(hash)s, 'hex'),
    %(tx)s::text::xid8, %(position)s, %(era)s)
"""


async def seal_rows(conn: AsyncConnection[DictRow], limit: int, pause_seconds: float = PAUSE_SECONDS) -> int:
    """Seals at most `limit` rows, in a transaction; how many. None while another seals, or has just sealed a few."""
    if not (await _one(conn, HOLD, (SEALER_LOCK,)))["held"]:
        return 0
    last = await (await conn.execute(LAST, {"pause": pause_seconds, "limit": limit})).fetchone()
    if last is not None and last["fresh"]:
        return 0
    cursor = last or START
    found = await _settled(conn, cursor, limit)
    if not found and last is not None and last["moved"]:
        cursor = {**START, "era": (await _one(conn, NEWEST_SEALED))["era"]}
        found = await _settled(conn, cursor, limit)
    if found:
        await _keep(conn, Head(last["number"], last["hash"]) if last else None, cursor["era"], found)
    return len(found)


async def _settled(conn: AsyncConnection[DictRow], cursor: dict[str, Any], limit: int) -> Sequence[DictRow]:
    parameters = {"tx": cursor["tx"], "position": cursor["position"], "era": cursor["era"], "limit": limit}
    return await (await conn.execute(SETTLED, parameters)).fetchall()


async def _keep(conn: AsyncConnection[DictRow], after: Head | None, era: int, found: Sequence[DictRow]) -> None:
    rows: list[Row] = [row_of(row) for row in found]
    seal = next_seal(after, found[0]["now"], rows)
    parameters = {
        "number": seal.number,
        "at": seal.at,
        "positions": seal.positions,
        "hashes": bytes.fromhex("".join(seal.hashes)),
        "previous": seal.previous,
        "hash": seal.hash,
        "tx": found[-1]["tx"],
        "position": rows[-1].position,
        "era": era,
    }
    await conn.execute(KEEP, parameters)


async def _one(conn: AsyncConnection[DictRow], sql: str, parameters: Sequence[Any] = ()) -> DictRow:
    row = await (await conn.execute(sql, parameters)).fetchone()
    assert row is not None
    return row
