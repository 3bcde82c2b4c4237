"""What persons are given to decide, of their own and in the place of others."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Grant, Right
from signoff.domain.grants import Given
from signoff.infra.postgres.audit_actor import name_actor

INSERT = """
INSERT INTO signoff.grants (id, person, delegator, tools, condition, expires_at, created_by, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""


class GrantTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def add(self, given: Given) -> None:
        grant = given.grant
        whose = (given.person, given.delegator)
        what = (list(grant.tools), grant.condition, grant.expires_at)
        await self._conn.execute(INSERT, (grant.id, *whose, *what, given.created_by, given.created_at))

    async def get(self, grant_id: UUID) -> Given | None:
        cursor = await self._conn.execute(
            "SELECT id, tools, condition, expires_at, person, delegator, created_by, created_at, revoked_at"
            " FROM signoff.grants WHERE id = %s",
            (grant_id,),
        )
        row = await cursor.fetchone()
        return None if row is None else _given_of(row)

    async def revoke(self, grant_id: UUID, by: str) -> bool:
        cursor = await self._conn.execute(
            "UPDATE signoff.grants SET revoked_at = clock_timestamp(), revoked_by = %s"
            " WHERE id = %s AND revoked_at IS NULL",
            (by, grant_id),
        )
        return cursor.rowcount == 1

    async def revoke_own(self, name: str, by: str) -> None:
        await self._conn.execute(
            "UPDATE signoff.grants SET revoked_at = clock_timestamp(), revoked_by = %s"
            " WHERE person = %s AND delegator IS NULL AND revoked_at IS NULL",
            (by, name),
        )

    async def set_limited(self, name: str, limited: bool, by: str) -> None:
        await name_actor(self._conn, by)
        await self._conn.execute(
            "UPDATE signoff.principals SET limited = %s WHERE name = %s AND limited <> %s", (limited, name, limited)
        )

    async def set_membership(
        self, name: str, groups: Collection[str] | None, rights: Collection[Right] | None, by: str
    ) -> None:
        """Replaces the groups, the rights, or both; None leaves them."""
        await name_actor(self._conn, by)
        await self._conn.execute(
            "UPDATE signoff.principals SET groups = coalesce(%s, groups), rights = coalesce(%s, rights)"
            " WHERE name = %s",
            (None if groups is None else sorted(groups), None if rights is None else sorted(rights), name),
        )


def _given_of(row: DictRow) -> Given:
    grant = Grant(row["id"], tuple(row["tools"]), row["condition"], row["expires_at"])
    others = ("person", "delegator", "created_by", "created_at", "revoked_at")
    return Given(grant, **{name: row[name] for name in others})
