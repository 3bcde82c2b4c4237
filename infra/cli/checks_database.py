"""What the doctor asks Postgres."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from signoff.domain.errors import SchemaOutdated
from signoff.infra.cli.checks import Check, State, failed, judged, made, passed, warned
from signoff.infra.cli.checks_agents import MOST_CLOCK_SECONDS, check_agents
from signoff.infra.cli.checks_audit import check_audit
from signoff.infra.cli.checks_flow import FLOW
from signoff.infra.cli.checks_people import PEOPLE
from signoff.infra.cli.checks_rows import PATIENCE_SECONDS, Connection, check_rows, one
from signoff.infra.cli.checks_sendings import check_sendings
from signoff.infra.cli.checks_stuck import STUCK
from signoff.infra.cli.checks_waiting import check_poison, check_workers
from signoff.infra.postgres.migrate import OLDEST_POSTGRES
from signoff.infra.postgres.schema import REVISION, require_current_schema

CONNECT_SECONDS = 5
MOST_SECONDS_OF_ONE = 10

INVALID_INDEXES = """
SELECT n.nspname || '.' || c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('signoff', 'langgraph') AND NOT i.indisvalid
"""


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
    await conn.execute(f"SET statement_timeout = '{MOST_SECONDS_OF_ONE}s'")
    basics = [
        _version(conn),
        await made("clock", lambda: _clock(conn)),
        await made("durability", lambda: _durable(conn)),
    ]
    schema = await made("schema", lambda: _schema(conn))
    if not schema.ok:
        rest = warned("the rest", "not looked at, as the tables may be others", "look again once the schema is right")
        return [*basics, schema, rest]
    return [*basics, schema, await made("indexes", lambda: _indexes(conn)), *(await _under_way(conn))]


def _version(conn: Connection) -> Check:
    version = conn.info.server_version
    found = f"PostgreSQL {version // 10000}.{version % 10000}"
    return judged("database", version >= OLDEST_POSTGRES, found, "Signoff needs PostgreSQL 15 or newer")


async def _clock(conn: Connection) -> Check:
    """Half of the round trip is given to each direction."""
    before, started = datetime.now(UTC), time.monotonic()
    row = await one(conn, "SELECT clock_timestamp() AS now")
    ahead = (row["now"] - before).total_seconds() - (time.monotonic() - started) / 2
    found = f"the database is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'} this host"
    remedy = "set both clocks by NTP: signed requests and deadlines are compared with them"
    return judged("clock", abs(ahead) <= MOST_CLOCK_SECONDS, found, remedy)


async def _durable(conn: Connection) -> Check:
    """What is said to be committed must outlive a crash of the server."""
    off = []
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        row = await one(conn, f"SHOW {name}")
        if row[name] == "off":
            off.append(name)
    found = f"off: {', '.join(off)}" if off else "what is committed stays"
    remedy = "turn it on: an effect could be sent again whose dispatch a crash of the database has undone"
    return judged("durability", not off, found, remedy, otherwise=State.warn)


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


async def _under_way(conn: Connection) -> Sequence[Check]:
    return [
        *await check_rows(conn, FLOW),
        await made("workers", lambda: check_workers(conn, PATIENCE_SECONDS)),
        *await check_rows(conn, STUCK),
        await made("poison", lambda: check_poison(conn)),
        await made("sendings", lambda: check_sendings(conn)),
        *await check_rows(conn, PEOPLE),
        *await check_agents(conn),
        await made("audit", lambda: check_audit(conn)),
    ]
