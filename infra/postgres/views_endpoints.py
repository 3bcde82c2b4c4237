"""Endpoints as they are shown: never with a secret."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import EndpointNotFound
from signoff.infra.postgres.views import iso

ENDPOINTS = """
SELECT e.name, e.speaks_for, e.dialect, e.created_at, e.revoked_at,
    array_agg(s.id ORDER BY s.created_at DESC) AS ids,
    array_agg(s.created_at ORDER BY s.created_at DESC) AS made,
    array_agg(s.created_by ORDER BY s.created_at DESC) AS makers,
    array_agg(s.ends_at ORDER BY s.created_at DESC) AS ends,
    array_agg(s.last_used_at ORDER BY s.created_at DESC) AS uses,
    max(s.last_used_at) AS last_used_at
FROM signoff.endpoints e JOIN signoff.endpoint_secrets s ON s.endpoint = e.name
"""


async def list_endpoints(conn: AsyncConnection[DictRow]) -> dict[str, Any]:
    """{"endpoints"}: oldest first, those that are revoked too."""
    cursor = await conn.execute(ENDPOINTS + " GROUP BY e.name ORDER BY e.created_at, e.name")
    return {"endpoints": [_view(row) for row in await cursor.fetchall()]}


async def show_endpoint(conn: AsyncConnection[DictRow], name: str) -> dict[str, Any]:
    """Raises EndpointNotFound."""
    row = await (await conn.execute(ENDPOINTS + " WHERE e.name = %s GROUP BY e.name", (name,))).fetchone()
    if row is None:
        raise EndpointNotFound(f"there is no endpoint {name!r}")
    return _view(row)


def _view(row: DictRow) -> dict[str, Any]:
    times = {name: iso(row[name]) for name in ("created_at", "last_used_at", "revoked_at")}
    parts = zip(row["ids"], row["made"], row["makers"], row["ends"], row["uses"], strict=True)
    secrets = [
        {
            "secret_id": str(id_),
            "created_at": iso(made),
            "created_by": maker,
            "ends_at": iso(ends),
            "last_used_at": iso(used),
        }
        for id_, made, maker, ends, used in parts
    ]
    return {
        "name": row["name"],
        "speaks_for": sorted(row["speaks_for"]),
        "dialect": row["dialect"],
        **times,
        "decide": f"/v1/webhooks/{row['name']}/decisions",
        "secrets": secrets,
    }
