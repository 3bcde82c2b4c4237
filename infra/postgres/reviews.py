"""Reviews, their items and decisions in Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.decisions import NextStep
from signoff.domain.jobs import Job
from signoff.domain.policy import DecisionType
from signoff.domain.ports import LockedReview, NewReview
from signoff.domain.reviews import Decision, Item, ItemStatus, Review, ReviewStatus
from signoff.infra.postgres.jobs import JOB_COLUMNS, job_of

# The items come as one JSON document, whose numbers keep their digits.
INSERT = """
WITH review AS (
    INSERT INTO signoff.reviews
        (id, job_id, thread_id, interrupt_id, checkpoint_id, status, policy_digest, reviewers, deadline_at)
    VALUES (%(id)s, %(job_id)s, %(thread_id)s, %(interrupt_id)s, %(checkpoint_id)s, 'pending', %(policy_digest)s,
        %(reviewers)s, clock_timestamp() + make_interval(secs => %(deadline)s))
    ON CONFLICT (thread_id, interrupt_id) DO NOTHING RETURNING id, created_at, deadline_at),
items AS (
    INSERT INTO signoff.items (id, review_id, ordinal, status, operation_id, message_id, call_ordinal, edits,
        tool_call_id, tool, args, unreadable_args, digest, description, rule, reason, allowed_decisions, reviewers,
        args_schema, deadline_at, approval_valid_for_seconds)
    SELECT x.id, review.id, x.ordinal, 'open', x.operation_id, x.message_id, x.call_ordinal, x.edits,
        x.tool_call_id, x.tool, x.args, x.unreadable_args, x.digest, x.description, x.rule, x.reason,
        x.allowed_decisions, x.reviewers, x.args_schema, review.created_at + make_interval(secs => x.deadline),
        x.approval_valid_for_seconds
    FROM review, json_to_recordset(%(items)s::json) AS x (id uuid, ordinal integer, operation_id text,
        message_id text, call_ordinal integer, edits integer, tool_call_id text, tool text, args json,
        unreadable_args text, digest text, description text, rule text, reason text, allowed_decisions text[],
        reviewers text[], args_schema jsonb, deadline double precision, approval_valid_for_seconds double precision))
SELECT deadline_at FROM review
"""

ITEM_COLUMNS = """i.id, i.ordinal, i.status, i.operation_id, i.message_id, i.call_ordinal, i.edits, i.tool_call_id,
    i.tool, i.args, i.unreadable_args, i.digest, i.description, i.rule, i.reason, i.allowed_decisions, i.reviewers,
    i.args_schema, i.deadline_at, i.approval_valid_for_seconds"""

DECISION_COLUMNS = """d.id AS decision_id, d.type AS decision_type, d.reviewer AS decision_reviewer,
    d.operation_id AS decision_operation_id, d.digest AS decision_digest, d.args AS decision_args,
    d.message AS decision_message, d.next_step AS decision_next_step, d.decided_at AS decision_decided_at"""

SELECT = f"""
SELECT r.id AS review_id, r.job_id, r.thread_id, r.interrupt_id, r.status AS review_status, {ITEM_COLUMNS},
    {DECISION_COLUMNS}
FROM signoff.reviews r JOIN signoff.items i ON i.review_id = r.id LEFT JOIN signoff.decisions d ON d.item_id = i.id
"""

LOCK_JOB = f"""
SELECT {JOB_COLUMNS}, t.lineage_root FROM signoff.reviews r
JOIN signoff.jobs j ON j.id = r.job_id JOIN signoff.threads t ON t.id = r.thread_id
WHERE r.id = %s FOR NO KEY UPDATE OF j
"""

LOCK = f"""
{SELECT.replace("SELECT r.id", "SELECT clock_timestamp() AS now, r.id", 1)}
WHERE r.id = %s ORDER BY i.ordinal FOR UPDATE OF r, i
"""

DECIDE = """
WITH item AS (UPDATE signoff.items SET status = 'decided' WHERE id = %(item_id)s AND status = 'open' RETURNING id)
INSERT INTO signoff.decisions (id, item_id, type, reviewer, door, operation_id, digest, args, message, next_step,
    decided_at)
SELECT %(id)s, id, %(type)s, %(reviewer)s, %(door)s, %(operation_id)s, %(digest)s, %(args)s, %(message)s, %(next_step)s,
    %(decided_at)s
FROM item
"""


class ReviewTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def create(self, job: Job, review: NewReview) -> datetime | Literal[False] | None:
        items = [_item_fields(item, seconds) for item, seconds in zip(review.items, review.deadlines, strict=True)]
        parameters = {
            "id": review.id,
            "job_id": job.id,
            "thread_id": job.thread_id,
            "interrupt_id": review.interrupt_id,
            "checkpoint_id": review.checkpoint_id,
            "policy_digest": review.policy_digest,
            "reviewers": sorted({group for item in review.items for group in item.reviewers}),
            "deadline": min((seconds for seconds in review.deadlines if seconds is not None), default=None),
            "items": json.dumps(items, ensure_ascii=False),
        }
        row = await (await self._conn.execute(INSERT, parameters)).fetchone()
        if row is None:
            return False
        deadline: datetime | None = row["deadline_at"]
        return deadline

    async def is_answered(self, thread_id: str, interrupt_id: str) -> bool:
        cursor = await self._conn.execute(
            "SELECT 1 AS one FROM signoff.reviews WHERE thread_id = %s AND interrupt_id = %s"
            " AND status IN ('decided', 'expired') AND resumed_at IS NULL",
            (thread_id, interrupt_id),
        )
        return await cursor.fetchone() is not None

    async def lock(self, review_id: UUID) -> LockedReview | None:
        row = await (await self._conn.execute(LOCK_JOB, (review_id,))).fetchone()
        if row is None:
            return None
        root = row.pop("lineage_root")
        cursor = await self._conn.execute(LOCK, (review_id,))
        rows = await cursor.fetchall()
        return LockedReview(review_of(rows), job_of(row), root, rows[0]["now"])

    async def of_job(self, job_id: UUID) -> Sequence[Review]:
        cursor = await self._conn.execute(
            SELECT + " WHERE r.job_id = %s ORDER BY r.created_at, r.id, i.ordinal", (job_id,)
        )
        grouped: dict[UUID, list[DictRow]] = {}
        for row in await cursor.fetchall():
            grouped.setdefault(row["review_id"], []).append(row)
        return [review_of(rows) for rows in grouped.values()]

    async def decide(self, decisions: Sequence[Decision], door: str) -> None:
        for decision in decisions:
            await self._conn.execute(DECIDE, _decision_parameters(decision, door))

    async def expire_items(self, review_id: UUID) -> int:
        cursor = await self._conn.execute(
            "UPDATE signoff.items SET status = 'expired'"
            " WHERE review_id = %s AND status = 'open' AND deadline_at <= clock_timestamp()",
            (review_id,),
        )
        return cursor.rowcount

    async def close(self, review_id: UUID, status: ReviewStatus) -> bool:
        cursor = await self._conn.execute(
            "UPDATE signoff.reviews SET status = %s, decided_at = clock_timestamp()"
            " WHERE id = %s AND status = 'pending'",
            (status, review_id),
        )
        return cursor.rowcount == 1

    async def cancel_of_job(self, job_id: UUID) -> Sequence[UUID]:
        cursor = await self._conn.execute(
            "UPDATE signoff.reviews SET status = 'cancelled' WHERE job_id = %s AND status = 'pending' RETURNING id",
            (job_id,),
        )
        ids = [row["id"] for row in await cursor.fetchall()]
        if ids:
            await self._conn.execute(
                "UPDATE signoff.items SET status = 'cancelled' WHERE review_id = ANY(%s) AND status = 'open'", (ids,)
            )
        return ids

    async def mark_resumed(self, interrupt_ids: Sequence[str], thread_id: str) -> None:
        await self._conn.execute(
            "UPDATE signoff.reviews SET resumed_at = clock_timestamp()"
            " WHERE thread_id = %s AND interrupt_id = ANY(%s) AND resumed_at IS NULL",
            (thread_id, list(interrupt_ids)),
        )

    async def is_pending(self, job_id: UUID) -> bool:
        cursor = await self._conn.execute(
            "SELECT 1 AS one FROM signoff.reviews WHERE job_id = %s AND status = 'pending' LIMIT 1", (job_id,)
        )
        return await cursor.fetchone() is not None

    async def past_deadline(self, limit: int) -> Sequence[UUID]:
        cursor = await self._conn.execute(
            "SELECT review_id FROM signoff.items WHERE status = 'open' AND deadline_at <= clock_timestamp()"
            " GROUP BY review_id ORDER BY min(deadline_at) LIMIT %s",
            (limit,),
        )
        return [row["review_id"] for row in await cursor.fetchall()]


def review_of(rows: Sequence[DictRow]) -> Review:
    first = rows[0]
    return Review(
        id=first["review_id"],
        job_id=first["job_id"],
        thread_id=first["thread_id"],
        interrupt_id=first["interrupt_id"],
        status=ReviewStatus(first["review_status"]),
        items=tuple(_item_of(row) for row in rows),
    )


def _item_of(row: DictRow) -> Item:
    return Item(
        id=row["id"],
        ordinal=row["ordinal"],
        status=ItemStatus(row["status"]),
        operation_id=row["operation_id"],
        message_id=row["message_id"],
        call_ordinal=row["call_ordinal"],
        edits=row["edits"],
        tool_call_id=row["tool_call_id"],
        tool=row["tool"],
        args=row["args"],
        unreadable_args=row["unreadable_args"],
        digest=row["digest"],
        description=row["description"],
        rule=row["rule"],
        reason=row["reason"],
        allowed_decisions=tuple(DecisionType(word) for word in row["allowed_decisions"]),
        reviewers=tuple(row["reviewers"]),
        args_schema=row["args_schema"],
        deadline_at=row["deadline_at"],
        approval_valid_for_seconds=row["approval_valid_for_seconds"],
        decision=_decision_of(row) if row["decision_id"] else None,
    )


def _decision_of(row: DictRow) -> Decision:
    step = row["decision_next_step"]
    return Decision(
        id=row["decision_id"],
        item_id=row["id"],
        type=DecisionType(row["decision_type"]),
        reviewer=row["decision_reviewer"],
        operation_id=row["decision_operation_id"],
        digest=row["decision_digest"],
        args=row["decision_args"],
        message=row["decision_message"],
        next_step=NextStep(step) if step else None,
        decided_at=row["decision_decided_at"],
    )


def _item_fields(item: Item, deadline_seconds: float | None) -> dict[str, Any]:
    return {
        "id": str(item.id),
        "ordinal": item.ordinal,
        "operation_id": item.operation_id,
        "message_id": item.message_id,
        "call_ordinal": item.call_ordinal,
        "edits": item.edits,
        "tool_call_id": item.tool_call_id,
        "tool": item.tool,
        "args": item.args,
        "unreadable_args": item.unreadable_args,
        "digest": item.digest,
        "description": item.description,
        "rule": item.rule,
        "reason": item.reason,
        "allowed_decisions": [str(word) for word in item.allowed_decisions],
        "reviewers": list(item.reviewers),
        "args_schema": item.args_schema,
        "deadline": deadline_seconds,
        "approval_valid_for_seconds": item.approval_valid_for_seconds,
    }


def _decision_parameters(decision: Decision, door: str) -> dict[str, Any]:
    return {
        "id": decision.id,
        "item_id": decision.item_id,
        "type": decision.type,
        "reviewer": decision.reviewer,
        "door": door,
        "operation_id": decision.operation_id,
        "digest": decision.digest,
        "args": _json(decision.args),
        "message": decision.message,
        "next_step": decision.next_step,
        "decided_at": decision.decided_at,
    }


def _json(value: Mapping[str, Any] | None) -> Json | None:
    return None if value is None else Json(dict(value))
