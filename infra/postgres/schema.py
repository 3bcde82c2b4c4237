"""Which schema this version of the code needs. Kept apart from the migrations: every process asks, few migrate.

A newer database is fine as long as it says that code of this revision can still work on it: so the processes of one
release go on, and may be started again, while those of the next take their places.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import SchemaOutdated

REVISION = "0013"  # Alembic's head; a test compares them


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database is at, and the oldest code that it still takes, both by revision. None: there is nothing."""

    revision: str | None
    oldest: str | None = None

    @property
    def is_newer(self) -> bool:
        return self.revision is not None and self.revision > REVISION

    @property
    def fits(self) -> bool:
        """True if this code may work on it."""
        if self.revision == REVISION:
            return True
        return self.is_newer and self.oldest is not None and self.oldest <= REVISION


async def require_current_schema(conn: AsyncConnection[DictRow]) -> None:
    """Raises SchemaOutdated unless the database is at this code's revision, or at a newer one that takes this code."""
    schema = await schema_of(conn)
    if not schema.fits:
        advice = "this version is older than the database takes" if schema.is_newer else "run `signoff migrate`"
        found = schema.revision or "none"
        raise SchemaOutdated(f"the database is at schema {found}, this version needs {REVISION}: {advice}")


async def schema_of(conn: AsyncConnection[DictRow]) -> Schema:
    """Outside of a transaction: what is not there fails a statement."""
    try:
        row = await (await conn.execute("SELECT version_num FROM signoff.schema_version")).fetchone()
        if row is None:
            return Schema(None)
        if row["version_num"] <= REVISION:
            return Schema(row["version_num"])
        newer = await (await conn.execute("SELECT oldest FROM signoff.schema_compatibility")).fetchone()
        return Schema(row["version_num"], newer["oldest"] if newer else None)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return Schema(None)
