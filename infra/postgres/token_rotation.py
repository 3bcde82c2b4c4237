"""A token that takes another's place. It is its owner's as the first was: what they may do, and did, is untouched."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import InvalidRequest, TokenNotFound

ACCEPTED = """
SELECT t.id, t.principal FROM signoff.tokens t JOIN signoff.principals p ON p.name = t.principal
WHERE p.revoked_at IS NULL AND t.revoked_at IS NULL AND (t.ends_at IS NULL OR t.ends_at > clock_timestamp())
"""
BY_ID = ACCEPTED + " AND t.id = %s FOR UPDATE OF t"
# One that ends already has been rotated: it is not the one that is meant by its owner's name.
BY_NAME = ACCEPTED + " AND t.principal = %s AND t.ends_at IS NULL ORDER BY t.created_at FOR UPDATE OF t"
END = "UPDATE signoff.tokens SET ends_at = least(ends_at, clock_timestamp() + %s) WHERE id = %s"


async def end_token(conn: AsyncConnection[DictRow], which: UUID | str, overlap: timedelta) -> str:
    """Ends a token, given by its id or by the name of an owner of one, after the overlap; returns the owner's name.

    Inside a transaction, which adds the new one.

    Raises:
        TokenNotFound: there is none that is accepted now.
        InvalidRequest: the owner has several.
    """
    rows = await (await conn.execute(BY_ID if isinstance(which, UUID) else BY_NAME, (which,))).fetchall()
    if not rows:
        raise TokenNotFound(f"there is no token {which} that is accepted now")
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows)
        raise InvalidRequest(f"{which} has {len(rows)} tokens: name one by its id: {ids}")
    await conn.execute(END, (overlap, rows[0]["id"]))
    return str(rows[0]["principal"])
