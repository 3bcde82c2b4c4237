"""Endpoints and their secrets. Several secrets live side by side while one takes the other's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.endpoints import Endpoint
from signoff.domain.errors import EndpointExists, EndpointNotFound

LIVE = """
SELECT e.name, e.speaks_for, e.dialect, s.id, s.secret,
    s.last_used_at IS NULL OR s.last_used_at < clock_timestamp() - interval '1 minute' AS stale
FROM signoff.endpoints e JOIN signoff.endpoint_secrets s ON s.endpoint = e.name
WHERE e.name = %s AND e.revoked_at IS NULL AND (s.ends_at IS NULL OR s.ends_at > clock_timestamp())
ORDER BY s.created_at DESC
"""
END = """
UPDATE signoff.endpoint_secrets SET ends_at = least(ends_at, clock_timestamp() + %s)
WHERE endpoint = %s AND (ends_at IS NULL OR ends_at > clock_timestamp())
"""


@dataclass(frozen=True, slots=True)
class Secret:
    """One that is accepted now. `stale`: its last use is not known to be within the last minute."""

    id: UUID
    text: str
    stale: bool


class EndpointTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def add(self, endpoint: Endpoint, secret: str, *, by: str | None = None) -> None:
        """Inside a transaction. Raises EndpointExists, also for one that is revoked."""
        cursor = await self._conn.execute(
            "INSERT INTO signoff.endpoints (name, speaks_for, dialect, created_by) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING RETURNING name",
            (endpoint.name, sorted(endpoint.speaks_for), endpoint.dialect, by),
        )
        if await cursor.fetchone() is None:
            raise EndpointExists(f"there is an endpoint {endpoint.name!r} already")
        await self._add_secret(endpoint.name, secret, by)

    async def live(self, name: str) -> tuple[Endpoint, Sequence[Secret]]:
        """The endpoint with the secrets that are accepted now, newest first.

        Raises EndpointNotFound if there is none, or it is revoked.
        """
        rows = await (await self._conn.execute(LIVE, (name,))).fetchall()
        if not rows:
            raise _not_found(name)
        first = rows[0]
        endpoint = Endpoint(first["name"], frozenset(first["speaks_for"]), first["dialect"])
        return endpoint, [Secret(row["id"], row["secret"], row["stale"]) for row in rows]

    async def mark_use(self, secret: Secret) -> None:
        """Keeps the time of the last use, at most once a minute."""
        if secret.stale:
            await self._conn.execute(
                "UPDATE signoff.endpoint_secrets SET last_used_at = clock_timestamp() WHERE id = %s", (secret.id,)
            )

    async def change(self, endpoint: Endpoint) -> None:
        """Replaces whom it speaks for, and its dialect. Raises EndpointNotFound."""
        cursor = await self._conn.execute(
            "UPDATE signoff.endpoints SET speaks_for = %s, dialect = %s"
            " WHERE name = %s AND revoked_at IS NULL RETURNING name",
            (sorted(endpoint.speaks_for), endpoint.dialect, endpoint.name),
        )
        if await cursor.fetchone() is None:
            raise _not_found(endpoint.name)

    async def rotate(self, name: str, secret: str, overlap: timedelta, *, by: str | None = None) -> None:
        """Adds a secret; those before it end after the overlap, or when they were to end if that is sooner.

        Inside a transaction. Raises EndpointNotFound.
        """
        cursor = await self._conn.execute(
            "SELECT name FROM signoff.endpoints WHERE name = %s AND revoked_at IS NULL FOR UPDATE", (name,)
        )
        if await cursor.fetchone() is None:
            raise _not_found(name)
        await self._conn.execute(END, (overlap, name))
        await self._add_secret(name, secret, by)

    async def revoke(self, name: str, *, by: str | None = None) -> None:
        """Nothing that it signs is accepted any more. Inside a transaction. Raises EndpointNotFound."""
        cursor = await self._conn.execute(
            "SELECT revoked_at FROM signoff.endpoints WHERE name = %s FOR UPDATE", (name,)
        )
        row = await cursor.fetchone()
        if row is None:
            raise _not_found(name)
        if row["revoked_at"] is None:
            await self._conn.execute(
                "UPDATE signoff.endpoints SET revoked_at = clock_timestamp(), revoked_by = %s WHERE name = %s",
                (by, name),
            )

    async def _add_secret(self, name: str, secret: str, by: str | None) -> None:
        await self._conn.execute(
            "INSERT INTO signoff.endpoint_secrets (endpoint, secret, created_by) VALUES (%s, %s, %s)",
            (name, secret, by),
        )


def _not_found(name: str) -> EndpointNotFound:
    return EndpointNotFound(f"there is no endpoint {name!r}")
