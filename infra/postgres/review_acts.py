"""What is done with a review beside deciding it, in Postgres: an append-only row for each act, and guarded moves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.errors import Conflict
from signoff.domain.ports import NewAct
from signoff.domain.reviews import Item

ADD = """
INSERT INTO signoff.review_acts (review_id, item_id, act, actor, message, data) VALUES (%s, %s, %s, %s, %s, %s)
"""

CLAIM = """
UPDATE signoff.reviews SET claimed_by = %(by)s,
    claimed_until = greatest(clock_timestamp() + make_interval(secs => %(seconds)s),
        CASE WHEN claimed_by = %(by)s THEN claimed_until END)
WHERE id = %(id)s AND status = 'pending'
    AND (claimed_by IS NULL OR claimed_by = %(by)s OR claimed_until <= clock_timestamp())
RETURNING claimed_until
"""

CLIMB = """
UPDATE signoff.items i SET rung = %(rung)s, escalated_to = %(escalated_to)s, replaced = %(replaced)s,
    assigned_to = %(assigned_to)s, next_rung_at = r.created_at + make_interval(secs => %(next)s)
FROM signoff.reviews r
WHERE i.id = %(id)s AND r.id = i.review_id AND i.status = 'open' AND i.rung = %(rung)s - 1
RETURNING i.next_rung_at
"""

# Who is asked now, in place of others or not, must be able to decide.
ESCALATE = """
UPDATE signoff.reviews SET reviewers = ARRAY(SELECT DISTINCT unnest(reviewers || %s::text[])),
    claimed_by = NULL, claimed_until = NULL WHERE id = %s
"""

SELECT = """
SELECT review_id, item_id, act, actor, message, data, at FROM signoff.review_acts WHERE review_id = ANY(%s)
ORDER BY position
"""


class ReviewActTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def add(self, review_id: UUID, act: NewAct) -> None:
        data = None if act.facts is None else Json(dict(act.facts))
        await self._conn.execute(ADD, (review_id, act.item_id, act.act, act.actor, act.message, data))

    async def seen_by(self, review_id: UUID) -> Sequence[str]:
        cursor = await self._conn.execute("SELECT reviewers FROM signoff.reviews WHERE id = %s", (review_id,))
        row = await cursor.fetchone()
        names: Sequence[str] = row["reviewers"] if row else ()
        return names

    async def claim(self, review_id: UUID, by: str, seconds: float) -> datetime:
        cursor = await self._conn.execute(CLAIM, {"id": review_id, "by": by, "seconds": seconds})
        until: datetime = _moved(await cursor.fetchone())["claimed_until"]
        return until

    async def end_claim(self, review_id: UUID) -> None:
        await self._conn.execute(
            "UPDATE signoff.reviews SET claimed_by = NULL, claimed_until = NULL"
            " WHERE id = %s AND claimed_by IS NOT NULL",
            (review_id,),
        )

    async def assign(self, item_ids: Sequence[UUID], to: Sequence[str]) -> None:
        cursor = await self._conn.execute(
            "UPDATE signoff.items SET assigned_to = %s WHERE id = ANY(%s) AND status = 'open'",
            (list(to) or None, list(item_ids)),
        )
        if cursor.rowcount != len(item_ids):
            raise _changed()

    async def cancel_items(self, review_id: UUID) -> None:
        await self._conn.execute(
            "UPDATE signoff.items SET status = 'cancelled' WHERE review_id = %s AND status = 'open'", (review_id,)
        )

    async def climb(self, item: Item, next_after_seconds: float | None) -> datetime | None:
        parameters = {
            "id": item.id,
            "rung": item.rung,
            "escalated_to": list(item.escalated_to) or None,
            "replaced": item.replaced,
            "assigned_to": list(item.assigned_to) or None,
            "next": next_after_seconds,
        }
        cursor = await self._conn.execute(CLIMB, parameters)
        next_at: datetime | None = _moved(await cursor.fetchone())["next_rung_at"]
        return next_at

    async def escalate(self, review_id: UUID, reviewers: Sequence[str]) -> None:
        await self._conn.execute(ESCALATE, (list(reviewers), review_id))


async def acts_of(conn: AsyncConnection[DictRow], review_ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    """The acts of each review, oldest first, as they are shown."""
    found: dict[UUID, list[dict[str, Any]]] = {id_: [] for id_ in review_ids}
    for row in await (await conn.execute(SELECT, (list(review_ids),))).fetchall():
        found[row["review_id"]].append(_shown(row))
    return found


def _shown(row: DictRow) -> dict[str, Any]:
    return {
        "act": row["act"],
        "actor": row["actor"],
        "at": row["at"].isoformat(),
        "item_id": None if row["item_id"] is None else str(row["item_id"]),
        "message": row["message"],
        "facts": row["data"] or {},
    }


def _moved(row: DictRow | None) -> DictRow:
    if row is None:
        raise _changed()
    return row


def _changed() -> Conflict:
    return Conflict("somebody else changed the review at once; look again")
