"""Persons and services, and their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Delegation, Grant, Principal, PrincipalKind, Right
from signoff.domain.errors import PrincipalExists, PrincipalNotFound, TokenNotFound


def principal_of(document: Mapping[str, Any]) -> Principal:
    """The principal in the JSON that the SQL function `signoff.principal` gives of one that exists."""
    alone = _alone(document["principal"])
    return replace(alone, delegations=tuple(_delegation(one) for one in document["delegations"]))


def _alone(document: Mapping[str, Any]) -> Principal:
    return Principal(
        name=document["name"],
        kind=PrincipalKind(document["kind"]),
        groups=frozenset(document["groups"]),
        rights=frozenset(Right(right) for right in document["rights"]),
        revoked=document["revoked"],
        limited=document["limited"],
        grants=tuple(_grant(one) for one in document["grants"]),
    )


def _delegation(document: Mapping[str, Any]) -> Delegation:
    return Delegation(_grant(document), _alone(document["delegator"]))


def _grant(document: Mapping[str, Any]) -> Grant:
    ends = document["expires_at"]
    return Grant(
        id=UUID(document["id"]),
        tools=tuple(document["tools"]),
        condition=document["condition"],
        expires_at=None if ends is None else datetime.fromisoformat(ends),
    )


def _same(one: Principal, other: Principal) -> bool:
    return (one.kind, one.groups, one.rights) == (other.kind, other.groups, other.rights)


class PrincipalTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def get(self, name: str) -> Principal | None:
        cursor = await self._conn.execute("SELECT signoff.principal(%s) AS who", (name,))
        row = await cursor.fetchone()
        assert row is not None
        return None if row["who"]["principal"] is None else principal_of(row["who"])

    async def by_token(self, token_hash: bytes) -> Principal | None:
        """Who a token that is not revoked and has not ended belongs to. Marks its use, at most once a minute."""
        cursor = await self._conn.execute(
            "SELECT t.id, t.last_used_at IS NULL OR t.last_used_at < clock_timestamp() - interval '1 minute' AS stale,"
            " signoff.principal(t.principal) AS who FROM signoff.tokens t"
            " WHERE t.hash = %s AND t.revoked_at IS NULL AND (t.ends_at IS NULL OR t.ends_at > clock_timestamp())",
            (token_hash,),
        )
        row = await cursor.fetchone()
        if row is None:
            return None
        if row["stale"]:
            await self._conn.execute(
                "UPDATE signoff.tokens SET last_used_at = clock_timestamp() WHERE id = %s", (row["id"],)
            )
        return principal_of(row["who"])

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
        found = await self.get(principal.name)
        if found is None or found.revoked or not _same(found, principal):
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
            "SELECT t.id, t.principal, p.kind, p.groups, p.rights, t.created_at, t.last_used_at, t.ends_at,"
            " coalesce(t.revoked_at, p.revoked_at) AS revoked_at"
            " FROM signoff.tokens t JOIN signoff.principals p ON p.name = t.principal ORDER BY t.created_at"
        )
        return await cursor.fetchall()
