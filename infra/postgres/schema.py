"""Which schema this version of the code needs. Kept apart from the migrations: every process asks, few migrate."""

from __future__ import annotations

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import SchemaOutdated

REVISION = "0011"  # Alembic's head; a test compares them


async def require_current_schema(conn: AsyncConnection[DictRow]) -> None:
    """Raises SchemaOutdated unless the database is at the revision that this code was written for."""
    try:
        row = await (await conn.execute("SELECT version_num FROM signoff.schema_version")).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        row = None
    found = row["version_num"] if row else None
    if found != REVISION:
        newer = found is not None and found > REVISION
        advice = "this version is older than the database" if newer else "run `signoff migrate`"
        raise SchemaOutdated(f"the database is at schema {found or 'none'}, this version needs {REVISION}: {advice}")
