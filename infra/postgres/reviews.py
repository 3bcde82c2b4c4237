"""Reviews, their items and decisions in Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.decisions import NextStep
from signoff.domain.errors import Conflict
from signoff.domain.jobs import Job
from signoff.domain.policy import DecisionType
from signoff.domain.ports import LockedReview, NewReview
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import (
    ALONE,
    Decision,
    Item,
    ItemStatus,
    Proposal,
    Review,
    ReviewStatus,
    Revision,
    Settled,
)
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
        args_schema, deadline_at, approval_valid_for_seconds, terms, shown, next_rung_at)
    SELECT x.id, review.id, x.ordinal, 'open', x.operation_id, x.message_id, x.call_ordinal, x.edits,
        x.tool_call_id, x.tool, x.args, x.unreadable_args, x.digest, x.description, x.rule, x.reason,
        x.allowed_decisions, x.reviewers, x.args_schema, review.created_at + make_interval(secs => x.deadline),
        x.approval_valid_for_seconds, x.terms, x.shown, review.created_at + make_interval(secs => x.next_rung)
    FROM review, json_to_recordset(%(items)s::json) AS x (id uuid, ordinal integer, operation_id text,
        message_id text, call_ordinal integer, edits integer, tool_call_id text, tool text, args json,
        unreadable_args text, digest text, description text, rule text, reason text, allowed_decisions text[],
        reviewers text[], args_schema jsonb, deadline double precision, approval_valid_for_seconds double precision,
        terms json, shown json, next_rung double precision))
SELECT deadline_at FROM review
"""

# Whatever was decided on an item comes as one JSON document, and so does the revision that is its call now: numbers
# keep their digits in both.
ITEM_COLUMNS = """i.id, i.ordinal, i.status, i.operation_id, i.message_id, i.call_ordinal, i.edits, i.tool_call_id,
    i.tool, i.args, i.unreadable_args, i.digest, i.description, i.rule, i.reason, i.allowed_decisions, i.reviewers,
    i.args_schema, i.deadline_at, i.approval_valid_for_seconds, i.revision, i.decision_id, i.terms, i.shown,
    i.escalated_to, i.replaced, i.assigned_to, i.rung, i.next_rung_at,
    (SELECT json_agg(d ORDER BY d.decided_at, d.id) FROM signoff.decisions d WHERE d.item_id = i.id) AS decisions,
    CASE WHEN i.revision > 1 THEN (SELECT row_to_json(v) FROM signoff.revisions v
        WHERE v.item_id = i.id AND v.revision = i.revision) END AS amended"""

SELECT = f"""
SELECT r.id AS review_id, r.job_id, r.thread_id, r.interrupt_id, r.status AS review_status, r.claimed_by,
    r.claimed_until, {ITEM_COLUMNS}
FROM signoff.reviews r JOIN signoff.items i ON i.review_id = r.id
"""

LOCK_JOB = f"""
SELECT {JOB_COLUMNS}, t.lineage_root, t.forked_from IS NOT NULL
    OR EXISTS (SELECT FROM signoff.threads f WHERE f.forked_from = t.id) AS has_forks FROM signoff.reviews r
JOIN signoff.jobs j ON j.id = r.job_id JOIN signoff.threads t ON t.id = r.thread_id
WHERE r.id = %s FOR NO KEY UPDATE OF j
"""

LOCK = f"""
{SELECT.replace("SELECT r.id", "SELECT clock_timestamp() AS now, r.id", 1)}
WHERE r.id = %s ORDER BY i.ordinal FOR UPDATE OF r, i
"""

# An item takes a decision only while it is open and in the revision that was decided on.
DECIDE = """
WITH item AS (
    UPDATE signoff.items SET status = CASE WHEN %(ends)s THEN 'decided' ELSE status END,
        decision_id = CASE WHEN %(ends)s THEN %(id)s END, revision = %(revision_after)s,
        assigned_to = CASE WHEN %(amends)s THEN NULL ELSE assigned_to END,
        escalated_to = CASE WHEN %(amends)s THEN NULL ELSE escalated_to END,
        replaced = replaced AND NOT %(amends)s
    WHERE id = %(item_id)s AND status = 'open' AND revision = %(revision)s RETURNING id)
INSERT INTO signoff.decisions (id, item_id, type, reviewer, door, operation_id, digest, args, message, next_step,
    decided_at, revision, on_behalf_of, tool, counts)
SELECT %(id)s, id, %(type)s, %(reviewer)s, %(door)s, %(operation_id)s, %(digest)s, %(args)s, %(message)s, %(next_step)s,
    %(decided_at)s, %(revision)s, %(on_behalf_of)s, %(tool)s, %(counts)s
FROM item RETURNING id
"""

AMEND = """
WITH amended AS (
    INSERT INTO signoff.revisions (item_id, revision, proposed_by, operation_id, edits, tool, args, digest, description,
        rule, reason, policy_digest, allowed_decisions, reviewers, args_schema, terms, shown,
        approval_valid_for_seconds)
    VALUES (%(item_id)s, %(revision)s, %(proposed_by)s, %(operation_id)s, %(edits)s, %(tool)s, %(args)s, %(digest)s,
        %(description)s, %(rule)s, %(reason)s, %(policy_digest)s, %(allowed_decisions)s, %(reviewers)s,
        %(args_schema)s, %(terms)s, %(shown)s, %(approval_valid_for_seconds)s) RETURNING item_id, reviewers)
UPDATE signoff.reviews r SET reviewers = ARRAY(SELECT DISTINCT unnest(r.reviewers || amended.reviewers))
FROM amended JOIN signoff.items i ON i.id = amended.item_id WHERE r.id = i.review_id
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
            "reviewers": sorted({name for item in review.items for name in item.reviewers}),
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
            " AND status <> 'pending' AND resumed_at IS NULL",
            (thread_id, interrupt_id),
        )
        return await cursor.fetchone() is not None

    async def lock(self, review_id: UUID) -> LockedReview | None:
        row = await (await self._conn.execute(LOCK_JOB, (review_id,))).fetchone()
        if row is None:
            return None
        root, has_forks = row.pop("lineage_root"), row.pop("has_forks")
        cursor = await self._conn.execute(LOCK, (review_id,))
        rows = await cursor.fetchall()
        return LockedReview(review_of(rows), job_of(row), root, has_forks, rows[0]["now"])

    async def of_job(self, job_id: UUID) -> Sequence[Review]:
        cursor = await self._conn.execute(
            SELECT + " WHERE r.job_id = %s ORDER BY r.created_at, r.id, i.ordinal", (job_id,)
        )
        grouped: dict[UUID, list[DictRow]] = {}
        for row in await cursor.fetchall():
            grouped.setdefault(row["review_id"], []).append(row)
        return [review_of(rows) for rows in grouped.values()]

    async def decide(self, settled: Sequence[Settled], door: str) -> None:
        for one in settled:
            cursor = await self._conn.execute(DECIDE, _decision_parameters(one, door))
            if await cursor.fetchone() is None:
                raise Conflict("somebody else changed the item at once; look again, and decide it again")
            if one.revision is not None:
                await self._conn.execute(AMEND, _revision_parameters(one.revision))

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
            "UPDATE signoff.reviews SET status = 'cancelled' WHERE job_id = %s AND status = 'pending'"
            " AND NOT starts_with(interrupt_id, %s) RETURNING id",
            (job_id, ALONE),
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
            "SELECT 1 AS one FROM signoff.reviews WHERE job_id = %s AND status = 'pending'"
            " AND NOT starts_with(interrupt_id, %s) LIMIT 1",
            (job_id, ALONE),
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
        claimed_by=first["claimed_by"],
        claimed_until=first["claimed_until"],
    )


def _item_of(row: DictRow) -> Item:
    call = {**row, **(row["amended"] or {})}
    decisions = [_decision_of(found, call) for found in row["decisions"] or ()]
    return Item(
        id=row["id"],
        ordinal=row["ordinal"],
        status=ItemStatus(row["status"]),
        operation_id=call["operation_id"],
        message_id=row["message_id"],
        call_ordinal=row["call_ordinal"],
        edits=call["edits"],
        tool_call_id=row["tool_call_id"],
        tool=call["tool"],
        args=call["args"],
        unreadable_args=row["unreadable_args"] if row["amended"] is None else None,
        digest=call["digest"],
        description=call["description"],
        rule=call["rule"],
        reason=call["reason"],
        allowed_decisions=tuple(DecisionType(word) for word in call["allowed_decisions"]),
        reviewers=tuple(call["reviewers"]),
        args_schema=call["args_schema"],
        deadline_at=row["deadline_at"],
        approval_valid_for_seconds=call["approval_valid_for_seconds"],
        decision=next((found for found in decisions if found.id == row["decision_id"]), None),
        earlier=tuple(found for found in decisions if found.id != row["decision_id"]),
        terms=ReviewTerms.from_dict(call["terms"]),
        shown=call["shown"],
        revision=row["revision"],
        asked_operation_id=row["operation_id"],
        proposed=_proposal_of(row),
        escalated_to=tuple(row["escalated_to"] or ()),
        replaced=row["replaced"],
        assigned_to=tuple(row["assigned_to"] or ()),
        rung=row["rung"],
        next_rung_at=row["next_rung_at"],
    )


def _proposal_of(row: DictRow) -> Proposal | None:
    amended = row["amended"]
    return None if amended is None else Proposal(row["tool"], row["args"], row["digest"], amended["proposed_by"])


def _decision_of(found: Mapping[str, Any], call: Mapping[str, Any]) -> Decision:
    step = found["next_step"]
    same = found["operation_id"] == call["operation_id"]
    return Decision(
        id=UUID(found["id"]),
        item_id=UUID(found["item_id"]),
        type=DecisionType(found["type"]),
        reviewer=found["reviewer"],
        operation_id=found["operation_id"],
        digest=found["digest"],
        args=found["args"],
        message=found["message"],
        next_step=NextStep(step) if step else None,
        decided_at=datetime.fromisoformat(found["decided_at"]).astimezone(UTC),
        tool=found["tool"] or call["tool"],
        edits=call["edits"] if same else call["edits"] + 1,
        revision=found["revision"],
        on_behalf_of=found["on_behalf_of"],
        counts=found["counts"],
    )


def _item_fields(item: Item, deadline_seconds: float | None) -> dict[str, Any]:
    ladder = item.terms.ladder
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
        "terms": item.terms.to_dict(),
        "shown": item.shown,
        "next_rung": ladder[0].after_seconds if ladder else None,
    }


def _decision_parameters(settled: Settled, door: str) -> dict[str, Any]:
    decision, item, revision = settled.decision, settled.item, settled.revision
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
        "revision": decision.revision,
        "on_behalf_of": decision.on_behalf_of,
        "tool": None if decision.tool == item.tool and revision is None else decision.tool,
        "counts": decision.counts,
        "ends": settled.ends,
        "amends": revision is not None,
        "revision_after": decision.revision if revision is None else revision.revision,
    }


def _revision_parameters(revision: Revision) -> dict[str, Any]:
    return {
        "item_id": revision.item_id,
        "revision": revision.revision,
        "proposed_by": revision.proposed_by,
        "operation_id": revision.operation_id,
        "edits": revision.edits,
        "tool": revision.tool,
        "args": _json(revision.args),
        "digest": revision.digest,
        "description": revision.description,
        "rule": revision.rule,
        "reason": revision.reason,
        "policy_digest": revision.policy_digest,
        "allowed_decisions": [str(word) for word in revision.allowed_decisions],
        "reviewers": list(revision.reviewers),
        "args_schema": _json(revision.args_schema),
        "terms": _json(revision.terms.to_dict()),
        "shown": _json(revision.shown),
        "approval_valid_for_seconds": revision.approval_valid_for_seconds,
    }


def _json(value: Mapping[str, Any] | None) -> Json | None:
    return None if value is None else Json(dict(value))
