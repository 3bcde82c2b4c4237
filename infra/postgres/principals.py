"""Persons and services, their tokens, and webhook endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.errors import EndpointExists, EndpointNotFound, PrincipalExists, PrincipalNotFound, TokenNotFound

COLUMNS = "name, kind, groups, rights, revoked_at IS NOT NULL AS revoked"


def principal_of(row: DictRow) -> Principal:
    return Principal(
        name=row["name"],
        kind=PrincipalKind(row["kind"]),
        groups=frozenset(row["groups"]),
        rights=frozenset(Right(right) for right in row["rights"]),
        revoked=row["revoked"],
    )


class PrincipalTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def get(self, name: str) -> Principal | None:
        cursor = await self._conn.execute(f"SELECT {COLUMNS} FROM signoff.principals WHERE name = %s", (name,))
        row = await cursor.fetchone()
        return None if row is None else principal_of(row)

    async def by_token(self, token_hash: bytes) -> Principal | None:
        """Who a token that is not revoked belongs to. Marks its use, at most once a minute."""
        cursor = await self._conn.execute(
            f"SELECT t.id, t.last_used_at IS NULL OR t.last_used_at < clock_timestamp() - interval '1 minute' AS stale,"
            f" {COLUMNS.replace('revoked_at', 'p.revoked_at')} FROM signoff.tokens t"
            " JOIN signoff.principals p ON p.name = t.principal WHERE t.hash = %s AND t.revoked_at IS NULL",
            (token_hash,),
        )
        row = await cursor.fetchone()
        if row is None:
            return None
        if row["stale"]:
            await self._conn.execute(
                "UPDATE signoff.tokens SET last_used_at = clock_timestamp() WHERE id = %s", (row["id"],)
            )
        return principal_of(row)

    async def create(self, principal: Principal) -> None:
        """Creates the principal; one that exists must be the same.

        Raises:
            PrincipalExists: it exists with another kind, other groups or other rights, or is revoked.
        """
        await self._conn.execute(
            "INSERT INTO signoff.principals (name, kind, groups, rights) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (principal.name, principal.kind, sorted(principal.groups), sorted(principal.rights)),
        )
        if await self.get(principal.name) != principal:
            raise PrincipalExists(f"{principal.name} exists with other groups or rights, or is revoked")

    async def revoke(self, name: str) -> None:
        """Takes everything from a person or service at once; what it approved and did not leave yet won't."""
        cursor = await self._conn.execute(
            "UPDATE signoff.principals SET revoked_at = coalesce(revoked_at, clock_timestamp())"
            " WHERE name = %s RETURNING name",
            (name,),
        )
        if await cursor.fetchone() is None:
            raise PrincipalNotFound(f"there is no person or service {name!r}")

    async def add_token(self, token_id: UUID, name: str, token_hash: bytes) -> None:
        await self._conn.execute(
            "INSERT INTO signoff.tokens (id, principal, hash) VALUES (%s, %s, %s)", (token_id, name, token_hash)
        )

    async def revoke_token(self, token_id: UUID) -> None:
        cursor = await self._conn.execute(
            "UPDATE signoff.tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = %s RETURNING id",
            (token_id,),
        )
        if await cursor.fetchone() is None:
            raise TokenNotFound(f"there is no token {token_id}")

    async def tokens(self) -> Sequence[dict[str, Any]]:
        cursor = await self._conn.execute(
            "SELECT t.id, t.principal, p.kind, p.groups, p.rights, t.created_at, t.last_used_at,"
            " coalesce(t.revoked_at, p.revoked_at) AS revoked_at"
            " FROM signoff.tokens t JOIN signoff.principals p ON p.name = t.principal ORDER BY t.created_at"
        )
        return await cursor.fetchall()

    async def add_endpoint(self, name: str, secret: str) -> None:
        cursor = await self._conn.execute(
            "INSERT INTO signoff.endpoints (name, secret) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING name",
            (name, secret),
        )
        if await cursor.fetchone() is None:
            raise EndpointExists(f"there is an endpoint {name!r} already")

    async def endpoint_secret(self, name: str) -> str:
        """Raises EndpointNotFound if there is none, or it is revoked."""
        cursor = await self._conn.execute(
            "SELECT secret FROM signoff.endpoints WHERE name = %s AND revoked_at IS NULL", (name,)
        )
        row = await cursor.fetchone()
        if row is None:
            raise EndpointNotFound(f"there is no endpoint {name!r}")
        return str(row["secret"])

    async def endpoints(self) -> Sequence[dict[str, Any]]:
        cursor = await self._conn.execute(
            "SELECT name, created_at, revoked_at FROM signoff.endpoints ORDER BY created_at"
        )
        return await cursor.fetchall()

    async def revoke_endpoint(self, name: str) -> None:
        cursor = await self._conn.execute(
            "UPDATE signoff.endpoints SET revoked_at = coalesce(revoked_at, clock_timestamp())"
            " WHERE name = %s RETURNING name",
            (name,),
        )
        if await cursor.fetchone() is None:
            raise EndpointNotFound(f"there is no endpoint {name!r}")
