"""What the doctor asks Postgres."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from signoff.domain.errors import SchemaOutdated
from signoff.infra.cli.checks import Check, failed, judged, passed
from signoff.infra.cli.checks_audit import check_audit
from signoff.infra.cli.checks_sendings import check_sendings
from signoff.infra.cli.checks_waiting import check_poison, check_workers
from signoff.infra.postgres.migrate import OLDEST_POSTGRES
from signoff.infra.postgres.schema import REVISION, require_current_schema

CONNECT_SECONDS = 5
MOST_CLOCK_SECONDS = 2.0
# Well beyond what a dispatcher that runs ever needs.
PATIENCE_SECONDS = 30

INVALID_INDEXES = """
SELECT n.nspname || '.' || c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('signoff', 'langgraph') AND NOT i.indisvalid
"""
STALE_LEASES = """
SELECT count(*) AS count, extract(epoch FROM clock_timestamp() - min(lease_until))::float8 AS seconds
FROM signoff.jobs WHERE status = 'running' AND lease_until < clock_timestamp() - make_interval(secs => %s)
"""
NOT_OFFERED = """
SELECT count(*) AS count, extract(epoch FROM clock_timestamp() - min(run_at))::float8 AS seconds
FROM signoff.jobs WHERE status = 'queued' AND run_at < clock_timestamp() - make_interval(secs => %s)
AND (offered_at IS NULL OR offered_at < run_at)
"""
UNPUBLISHED = """
SELECT count(*) AS count, extract(epoch FROM clock_timestamp() - min(at))::float8 AS seconds
FROM signoff.events WHERE published_at IS NULL AND at < clock_timestamp() - make_interval(secs => %s)
"""

Connection = AsyncConnection[DictRow]


async def check_database(database_url: str) -> Sequence[Check]:
    """Each check only where those before it make sense. Raises nothing for what the database may answer."""
    try:
        async with _connect(database_url) as conn:
            return await _examine(conn)
    except psycopg.ProgrammingError:
        remedy = "write SIGNOFF_DATABASE_URL as postgresql://user:password@host:port/database"
        return [failed("database", "the address can't be understood", remedy)]
    except psycopg.Error as error:
        found = " ".join(str(error).split())
        return [failed("database", found, "start it, or correct SIGNOFF_DATABASE_URL")]


@asynccontextmanager
async def _connect(database_url: str) -> AsyncIterator[Connection]:
    conn = await AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row, connect_timeout=CONNECT_SECONDS
    )
    async with conn:
        yield conn


async def _examine(conn: Connection) -> Sequence[Check]:
    basics = [_version(conn), await _clock(conn)]
    schema = await _schema(conn)
    if not schema.ok:
        return [*basics, schema]
    return [*basics, schema, await _indexes(conn), *(await _flow(conn))]


def _version(conn: Connection) -> Check:
    version = conn.info.server_version
    found = f"PostgreSQL {version // 10000}.{version % 10000}"
    return judged("database", version >= OLDEST_POSTGRES, found, "Signoff needs PostgreSQL 15 or newer")


async def _clock(conn: Connection) -> Check:
    """Half of the round trip is given to each direction."""
    before, started = datetime.now(UTC), time.monotonic()
    row = await _one(conn, "SELECT clock_timestamp() AS now")
    ahead = (row["now"] - before).total_seconds() - (time.monotonic() - started) / 2
    found = f"the database is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'} this host"
    remedy = "set both clocks by NTP: signed requests and deadlines are compared with them"
    return judged("clock", abs(ahead) <= MOST_CLOCK_SECONDS, found, remedy)


async def _schema(conn: Connection) -> Check:
    try:
        await require_current_schema(conn)
    except SchemaOutdated as error:
        return failed("schema", error.message, "run `signoff migrate`")
    return passed("schema", f"at {REVISION}")


async def _indexes(conn: Connection) -> Check:
    rows = await (await conn.execute(INVALID_INDEXES)).fetchall()
    found = ", ".join(row["name"] for row in rows) or "all valid"
    remedy = "a long transaction stopped their build: DROP INDEX CONCURRENTLY each, then `signoff migrate`"
    return judged("indexes", not rows, found, remedy)


async def _flow(conn: Connection) -> Sequence[Check]:
    look = "is a dispatcher running, and does it reach"
    return [
        await _late(conn, "leases", STALE_LEASES, "lapsed and not taken back", f"{look} the database?"),
        await _late(conn, "jobs", NOT_OFFERED, "due and never offered", f"{look} the database?"),
        await check_workers(conn, PATIENCE_SECONDS),
        await _late(conn, "events", UNPUBLISHED, "not published", f"{look} Redis?"),
        await check_poison(conn),
        await check_sendings(conn),
        await check_audit(conn),
    ]


async def _late(conn: Connection, name: str, sql: str, what: str, remedy: str) -> Check:
    row = await _one(conn, sql, PATIENCE_SECONDS)
    count = row["count"]
    found = f"{count} {what}, the oldest for {row['seconds']:.0f} s" if count else f"none {what}"
    return judged(name, count == 0, found, remedy)


async def _one(conn: Connection, sql: str, *parameters: Any) -> DictRow:
    row = await (await conn.execute(sql, parameters)).fetchone()
    assert row is not None
    return row
