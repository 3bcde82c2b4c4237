"""Reviews as they are shown, and what a decision is answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, may_reveal
from signoff.domain.deciding import Decided
from signoff.domain.errors import ReviewNotFound
from signoff.domain.review_view import review_view
from signoff.domain.reviews import Item, ItemStatus
from signoff.infra.postgres.review_acts import acts_of
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.reviews import SELECT, review_of
from signoff.infra.postgres.views import Page, Query, iso, may_read_reviews, split_page

HEADS = """SELECT r.id, r.created_at, r.deadline_at, r.decided_at, r.resumed_at, j.agent, j.submitted_by,
    r.claimed_until > clock_timestamp() AS is_claimed
FROM signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id"""


async def list_reviews(
    conn: AsyncConnection[DictRow], wanted: ReviewFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"reviews", "next"}: newest first, each with all that is needed to decide it. Raises InvalidRequest."""
    page = page or Page()
    query = Query()
    may_read_reviews(query, who)
    wanted.apply(query, who)
    query.add_page(page, "r.created_at", "r.id", UUID)
    sql = f"{HEADS} WHERE {query.where} ORDER BY r.created_at DESC, r.id DESC LIMIT %(rows)s"
    heads = await (await conn.execute(sql, query.parameters)).fetchall()
    kept, after = split_page(heads, page, "id")
    return {"reviews": await _views(conn, kept, who), "next": after}


async def show_review(conn: AsyncConnection[DictRow], review_id: UUID, who: Principal) -> dict[str, Any]:
    """One review with its items, decisions and acts. Raises ReviewNotFound."""
    query = Query()
    may_read_reviews(query, who)
    query.add_equal(r__id=review_id)
    heads = await (await conn.execute(f"{HEADS} WHERE {query.where}", query.parameters)).fetchall()
    if not heads:
        raise ReviewNotFound(f"there is no review {review_id} that you may read")
    (view,) = await _views(conn, heads, who)
    return {**view, "acts": (await acts_of(conn, [review_id]))[review_id]}


async def reviews_of_job(conn: AsyncConnection[DictRow], job_id: UUID, who: Principal) -> list[dict[str, Any]]:
    """All of a job that `who` may see, oldest first, each with its acts."""
    query = Query()
    may_read_reviews(query, who)
    query.add_equal(r__job_id=job_id)
    sql = f"{HEADS} WHERE {query.where} ORDER BY r.created_at, r.id"
    heads = await (await conn.execute(sql, query.parameters)).fetchall()
    acts = await acts_of(conn, [head["id"] for head in heads])
    views = await _views(conn, heads, who)
    return [{**view, "acts": acts[head["id"]]} for head, view in zip(heads, views, strict=True)]


async def require_readable(conn: AsyncConnection[DictRow], review_id: UUID, who: Principal) -> None:
    """Raises ReviewNotFound for who may not even know of the review."""
    query = Query()
    may_read_reviews(query, who)
    query.add_equal(r__id=review_id)
    sql = f"SELECT 1 AS one FROM signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id WHERE {query.where}"
    if await (await conn.execute(sql, query.parameters)).fetchone() is None:
        raise ReviewNotFound(f"there is no review {review_id} that you may read")


def decided_view(decided: Decided) -> dict[str, Any]:
    """The answer to a decision: the same for each repeat of it."""
    decisions = sorted(decided.decisions, key=lambda decision: decision.item_id)
    return {
        "review_id": str(decided.review_id),
        "job_id": str(decided.job_id),
        "status": str(decided.status),
        "decisions": [decision.brief() for decision in decisions],
    }


async def _views(conn: AsyncConnection[DictRow], heads: Sequence[DictRow], who: Principal) -> list[dict[str, Any]]:
    ids = [head["id"] for head in heads]
    cursor = await conn.execute(SELECT + " WHERE r.id = ANY(%s) ORDER BY i.ordinal", (ids,))
    rows: dict[UUID, list[DictRow]] = {id_: [] for id_ in ids}
    for row in await cursor.fetchall():
        rows[row["review_id"]].append(row)
    return [_view(head, rows[head["id"]], may_reveal(who)) for head in heads]


def _view(head: Mapping[str, Any], rows: Sequence[DictRow], reveal: bool) -> dict[str, Any]:
    review = review_of(rows)
    view = review_view(
        review,
        agent=head["agent"],
        deadline_at=head["deadline_at"],
        reveal=reveal,
        submitted_by=head["submitted_by"],
        created_at=iso(head["created_at"]),
        decided_at=iso(head["decided_at"]),
        resumed_at=iso(head["resumed_at"]),
    )
    if not head["is_claimed"]:
        view |= {"claimed_by": None, "claimed_until": None}
    for shown, item in zip(view["items"], review.items, strict=True):
        shown["ladder"] = _ladder(item)
    return view


def _ladder(item: Item) -> dict[str, Any]:
    """How far it was climbed, and when it goes on."""
    goes_on = item.status is ItemStatus.open
    return {
        "rung": item.rung,
        "rungs": len(item.terms.ladder),
        "next_at": iso(item.next_rung_at) if goes_on else None,
        "escalated_to": list(item.escalated_to),
    }
