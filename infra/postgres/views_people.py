"""Persons, with what they may do and decide, and delegations between them, as they are shown."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.errors import PrincipalNotFound
from signoff.infra.postgres.views import Page, Query, iso, operates, split_page

PEOPLE = """
SELECT p.name, p.groups, p.rights, p.limited, p.created_at, p.revoked_at FROM signoff.principals p
WHERE p.kind = 'person' AND (%(name)s::text IS NULL OR p.name = %(name)s) ORDER BY p.name
"""

GRANTS = """
SELECT g.id, g.person, g.delegator, g.tools, g.condition, g.expires_at, g.created_by, g.created_at, g.revoked_by,
    g.revoked_at, CASE WHEN g.revoked_at IS NOT NULL THEN 'revoked'
        WHEN g.expires_at <= clock_timestamp() THEN 'expired' ELSE 'active' END AS state
FROM signoff.grants g
"""


async def list_people(conn: AsyncConnection[DictRow]) -> list[dict[str, Any]]:
    """All persons by name, those who are revoked too."""
    cursor = await conn.execute(PEOPLE, {"name": None})
    return [_person(row) for row in await cursor.fetchall()]


async def show_person(conn: AsyncConnection[DictRow], name: str) -> dict[str, Any]:
    """One person with every grant, and every delegation given or held, newest first. Raises PrincipalNotFound."""
    person = await (await conn.execute(PEOPLE, {"name": name})).fetchone()
    if person is None:
        raise PrincipalNotFound(f"there is no person {name!r}")
    sql = f"{GRANTS} WHERE %(name)s IN (g.person, g.delegator) ORDER BY g.created_at DESC, g.id DESC"
    rows = await (await conn.execute(sql, {"name": name})).fetchall()
    return {
        **_person(person),
        "grants": [grant_view(row) for row in rows if row["delegator"] is None],
        "delegations_given": [delegation_view(row) for row in rows if row["delegator"] == name],
        "delegations_held": [delegation_view(row) for row in rows if row["delegator"] and row["person"] == name],
    }


async def list_delegations(conn: AsyncConnection[DictRow], who: Principal, page: Page | None = None) -> dict[str, Any]:
    """{"delegations", "next"}: newest first, those that `who` gave or holds; operators see all.

    Raises InvalidRequest.
    """
    page = page or Page()
    query = Query()
    query.add("g.delegator IS NOT NULL")
    if not operates(who):
        query.add("%(who)s IN (g.person, g.delegator)", who=None if who.revoked else who.name)
    query.add_page(page, "g.created_at", "g.id", UUID)
    sql = f"{GRANTS} WHERE {query.where} ORDER BY g.created_at DESC, g.id DESC LIMIT %(rows)s"
    rows = await (await conn.execute(sql, query.parameters)).fetchall()
    kept, after = split_page(rows, page, "id")
    return {"delegations": [delegation_view(row) for row in kept], "next": after}


async def show_delegation(conn: AsyncConnection[DictRow], grant_id: UUID) -> dict[str, Any]:
    """One that is known to be there, and to be for who asks."""
    row = await (await conn.execute(f"{GRANTS} WHERE g.id = %s", (grant_id,))).fetchone()
    assert row is not None
    return delegation_view(row)


def grant_view(row: DictRow) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "state": row["state"],
        "tools": row["tools"],
        "when": row["condition"],
        "expires_at": iso(row["expires_at"]),
        "created_by": row["created_by"],
        "created_at": iso(row["created_at"]),
        "revoked_by": row["revoked_by"],
        "revoked_at": iso(row["revoked_at"]),
    }


def delegation_view(row: DictRow) -> dict[str, Any]:
    return {"from": row["delegator"], "to": row["person"], **grant_view(row)}


def _person(row: DictRow) -> dict[str, Any]:
    return {
        "name": row["name"],
        "groups": row["groups"],
        "rights": row["rights"],
        "limited": row["limited"],
        "created_at": iso(row["created_at"]),
        "revoked_at": iso(row["revoked_at"]),
    }
