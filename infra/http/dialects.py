"""Which dialect a reviewer's program speaks: by the media type of what it sends, and of what it accepts."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from starlette.exceptions import HTTPException

from signoff.domain.dialects import DEFAULT, DIALECTS, MEDIA_PREFIX, Dialect, media_type
from signoff.domain.errors import ReviewNotFound
from signoff.domain.reviews import Review
from signoff.infra.http.openapi import DECIDE, DECISION
from signoff.infra.postgres.reviews import SELECT, review_of

OWN_VIEW = frozenset({"application/json", "application/*", "*/*"})


def decisions_body() -> dict[str, Any]:
    """The request body of decisions in every dialect, for `openapi_extra`."""
    own = {"application/json": {"schema": {"anyOf": [DECIDE, DECISION]}}}
    others = {media_type(dialect.name): {"schema": {"type": ["object", "array"]}} for dialect in DIALECTS}
    return {"requestBody": {"required": True, "content": {**own, **others}}}


async def review_to_read_by(conn: AsyncConnection[DictRow], review_id: UUID) -> Review:
    """The review that answers are read by. It is not locked: what is read is judged again by the locked one."""
    rows = await (await conn.execute(SELECT + " WHERE r.id = %s ORDER BY i.ordinal", (review_id,))).fetchall()
    if not rows:
        raise ReviewNotFound(f"there is no review {review_id} that you may read")
    return review_of(rows)


async def _of_body(request: Request) -> Dialect:
    kind = _kind(request.headers.get("content-type", ""))
    return _named(kind) if kind.startswith(MEDIA_PREFIX) else DEFAULT


async def _of_answer(request: Request) -> Dialect | None:
    """The first of the accepted types that we know decides; None is our own view."""
    for accepted in ",".join(request.headers.getlist("accept")).split(","):
        kind = _kind(accepted)
        if kind.startswith(MEDIA_PREFIX):
            return _named(kind)
        if kind in OWN_VIEW:
            return None
    return None


def _kind(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _named(kind: str) -> Dialect:
    found = {media_type(dialect.name): dialect for dialect in DIALECTS}
    if kind not in found:
        raise HTTPException(415, f"{kind} is no dialect; there are application/json, {', '.join(found)}")
    return found[kind]


BodyDialect = Annotated[Dialect, Depends(_of_body)]
AnswerDialect = Annotated[Dialect | None, Depends(_of_answer)]
