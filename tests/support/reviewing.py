"""Parked reviews as tests act on them and look at them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, Right
from signoff.domain.deciding import Decided, decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.jobs import Job
from signoff.domain.reviews import Review
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support.parked import REVIEWER

APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "no", "then": "stop"}
PAT = replace(REVIEWER, name="pat", rights=frozenset({Right.submit, Right.review}))
"""A person in finance who also submits."""


async def decide(store: PostgresStore, review_id: UUID, raw: Any = APPROVE, who: Principal = REVIEWER) -> Decided:
    answers = parse_answers({"decisions": [raw]})
    return await decide_review(store, NoHints(), review_id, answers, who, door="test", environment="test")


async def look(store: PostgresStore, review_id: UUID) -> tuple[Review, Job]:
    async with store.begin() as tx:
        locked = await tx.reviews.lock(review_id)
    assert locked is not None
    return locked.review, locked.job


async def rows(store: PostgresStore, sql: str, *parameters: Any) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        return await (await conn.execute(sql, parameters)).fetchall()


async def change(store: PostgresStore, sql: str, *parameters: Any) -> None:
    async with store.connection() as conn:
        await conn.execute(sql, parameters)


async def acts(store: PostgresStore, review_id: UUID) -> list[tuple[str, str]]:
    """Kind and actor of each act, which is told by exactly one event."""
    sql = "SELECT act, actor FROM signoff.review_acts WHERE review_id = %s ORDER BY position"
    found = [(row["act"], row["actor"]) for row in await rows(store, sql, review_id)]
    sql = "SELECT type, actor FROM signoff.events WHERE subject = %s ORDER BY sequence"
    told = [(row["type"].split(".")[2], row["actor"]) for row in await rows(store, sql, f"reviews/{review_id}")]
    kinds = {"claimed", "released", "reassigned", "commented", "cancelled", "reminded", "escalated"}
    assert [pair for pair in told if pair[0] in kinds] == found
    return found
