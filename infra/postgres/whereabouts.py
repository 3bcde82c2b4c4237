"""How far a database has come, as the newest seal of its audit says: what is compared with what was seen before."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.going_back import Whereabouts

WHERE = """
SELECT (SELECT id::text FROM signoff.installation LIMIT 1) AS installation,
    (SELECT count(*) FROM signoff.restores) AS restores,
    coalesce((SELECT number FROM signoff.audit_seals ORDER BY number DESC LIMIT 1), 0) AS seal,
    coalesce((SELECT encode(hash, 'hex') FROM signoff.audit_seals ORDER BY number DESC LIMIT 1), '') AS hash
"""


async def whereabouts(conn: AsyncConnection[DictRow]) -> Whereabouts:
    row = await (await conn.execute(WHERE)).fetchone()
    assert row is not None
    return Whereabouts(**row)


async def hash_of_seal(conn: AsyncConnection[DictRow], number: int) -> str | None:
    """None if there is no such seal (any more)."""
    cursor = await conn.execute(
        "SELECT encode(hash, 'hex') AS hash FROM signoff.audit_seals WHERE number = %s", (number,)
    )
    row = await cursor.fetchone()
    return None if row is None else str(row["hash"])
