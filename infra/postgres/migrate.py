"""`signoff migrate`: our schema by Alembic, LangGraph's tables by its own saver, one process at a time.

LangGraph's `setup()` is not safe to run side by side, can't run in a transaction, and skips an index that an
earlier run left invalid. So it runs here alone: under an advisory lock that is tried and not waited for (a
waiting session would block CREATE INDEX CONCURRENTLY), on a connection of its own, and the indexes are checked after.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import DictRow, dict_row
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from signoff.domain.errors import SchemaOutdated, StoreUnavailable
from signoff.infra.postgres.schema import REVISION, require_current_schema, schema_of

OLDEST_POSTGRES = 150000
LOCK = 7405311862114  # any constant that nobody else in the database uses
LOCK_WAIT_SECONDS = 120.0

Connection = psycopg.AsyncConnection[DictRow]


async def migrate(database_url: str) -> str:
    """Brings the database to this version's schema. Safe to call from many processes at once. Returns where it is then.

    A newer database that takes this version is left as it is.

    Raises:
        SchemaOutdated: the server is older than PostgreSQL 15, the database too new, or an index invalid.
        StoreUnavailable: the server can't be reached, or another migration did not end in time.
    """
    async with _connect(database_url) as conn, _alone(conn):
        await _require_version(conn)
        found = await schema_of(conn)
        if found.is_newer:
            await require_current_schema(conn)
            return str(found.revision)
        await conn.execute("CREATE SCHEMA IF NOT EXISTS signoff")
        await conn.execute("CREATE SCHEMA IF NOT EXISTS langgraph")
        await asyncio.to_thread(_run_alembic, database_url)
        await AsyncPostgresSaver(conn).setup()
        await _require_valid_indexes(conn)
    return REVISION


def head_revision() -> str:
    """The newest of the migrations."""
    head = ScriptDirectory.from_config(_alembic_config()).get_current_head()
    assert head is not None
    return head


def _alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("signoff.infra.postgres.migrations")))
    config.set_main_option("path_separator", "os")
    return config


def _run_alembic(database_url: str) -> None:
    engine = create_engine(_sqlalchemy_url(database_url), poolclass=NullPool)
    config = _alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _sqlalchemy_url(database_url: str) -> str:
    scheme, _, rest = database_url.partition("://")
    return f"{scheme.replace('postgres', 'postgresql') if scheme == 'postgres' else scheme}+psycopg://{rest}"


@asynccontextmanager
async def _connect(database_url: str) -> AsyncIterator[Connection]:
    try:
        conn = await psycopg.AsyncConnection.connect(
            database_url, autocommit=True, row_factory=dict_row, options="-c search_path=langgraph"
        )
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"can't reach the database: {error}") from error
    async with conn:
        yield conn


@asynccontextmanager
async def _alone(conn: Connection) -> AsyncIterator[None]:
    deadline = asyncio.get_running_loop().time() + LOCK_WAIT_SECONDS
    while not await _try_lock(conn):
        if asyncio.get_running_loop().time() > deadline:
            raise StoreUnavailable(f"another `signoff migrate` has been running for {LOCK_WAIT_SECONDS:.0f} s")
        await asyncio.sleep(0.1)
    try:
        yield
    finally:
        await conn.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))


async def _try_lock(conn: Connection) -> bool:
    row = await (await conn.execute("SELECT pg_try_advisory_lock(%s) AS got", (LOCK,))).fetchone()
    return row is not None and bool(row["got"])


async def _require_version(conn: Connection) -> None:
    if conn.info.server_version < OLDEST_POSTGRES:
        raise SchemaOutdated(f"PostgreSQL 15 or newer is needed, this is {conn.info.server_version // 10000}")


async def _require_valid_indexes(conn: Connection) -> None:
    cursor = await conn.execute(
        "SELECT i.indexrelid::regclass::text AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname IN ('signoff', 'langgraph') AND NOT i.indisvalid"
    )
    names = [str(row["name"]) for row in await cursor.fetchall()]
    if names:
        raise SchemaOutdated(
            f"invalid index: {', '.join(names)}. A long transaction stopped its build;"
            " drop it (DROP INDEX CONCURRENTLY) and run `signoff migrate` again"
        )
