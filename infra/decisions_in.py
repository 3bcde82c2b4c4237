"""A body of decisions read in its dialect, by the review that it is about: one way for every door."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.decisions import Answer
from signoff.domain.dialects import Dialect
from signoff.domain.errors import Invalid, ReviewNotFound
from signoff.domain.reviews import Review
from signoff.infra.postgres.reviews import SELECT, review_of
from signoff.infra.postgres.views_reviews import require_readable


async def read_answers(
    conn: AsyncConnection[DictRow], review_id: UUID, dialect: Dialect, body: Any, who: Principal
) -> list[Answer]:
    """The decisions that a body holds. What is read here is judged again, by the review under lock.

    Raises:
        ReviewNotFound: also for who may not read the review and sent what is not of the form: they learn nothing of it.
        Invalid: a leaf of it, as `Dialect.read` says.
    """
    review = await _review_to_read_by(conn, review_id)
    try:
        return dialect.read(body, review)
    except Invalid:
        await require_readable(conn, review_id, who)
        raise


async def _review_to_read_by(conn: AsyncConnection[DictRow], review_id: UUID) -> Review:
    rows = await (await conn.execute(SELECT + " WHERE r.id = %s ORDER BY i.ordinal", (review_id,))).fetchall()
    if not rows:
        raise ReviewNotFound(f"there is no review {review_id} that you may read")
    return review_of(rows)
