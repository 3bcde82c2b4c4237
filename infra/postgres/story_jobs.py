"""What a job's own tables tell: that it was submitted, claimed, held, retried, ended, and what operators did."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.events import EventType
from signoff.domain.jobs import ENDED, JobStatus
from signoff.infra.postgres.story_entries import Entry, short

JOB = """SELECT j.id, j.status, j.agent, j.thread_id, j.input, j.labels, j.submitted_by, j.door, j.created_at,
    j.fence, j.tries, j.claimed_at, coalesce(j.lease_owner, (SELECT a.worker FROM signoff.attempts a
        JOIN signoff.effects e USING (operation_id) WHERE e.job_id = j.id AND a.fence = j.fence LIMIT 1)) AS worker,
    j.cancel_requested_at, j.cancel_requested_by, j.result, j.error_code, j.error_message, j.ended_at
FROM signoff.jobs j WHERE j.id = %s"""

# What these tell, rows of reviews and effects tell in full.
TOLD_ELSEWHERE = [
    EventType.job_accepted,
    EventType.item_decided,
    EventType.effect_succeeded,
    EventType.effect_failed,
    EventType.effect_doubted,
    EventType.effect_died,
    EventType.effect_alarmed,
    EventType.effect_revoked,
    EventType.effect_settled,
    *(kind for kind in EventType if kind.startswith("signoff.review.")),
]
EVENTS = """SELECT type, actor, data, at FROM signoff.events WHERE job_id = %s AND type <> ALL(%s) ORDER BY sequence"""

# Events are kept for some days, the audit for good: what an event of the same transaction tells is not told twice.
MOVES = """SELECT a.act, a.actor, a.body, a.at FROM signoff.audit a
WHERE a.job_id = %s AND a.act IN ('job.held', 'job.queued_again', 'job.failed', 'job.cancelled')
    AND NOT EXISTS (SELECT 1 FROM signoff.events v
        WHERE v.job_id = a.job_id AND v.tx = a.tx AND v.type LIKE 'signoff.job.%%')"""
ACTS = """SELECT act, actor, reason, subject, request_id, outcome, at FROM signoff.operator_acts WHERE job_id = %s"""


async def job_entries(conn: AsyncConnection[DictRow], job_id: UUID) -> list[Entry]:
    """Of a job that is there."""
    job = await (await conn.execute(JOB, (job_id,))).fetchone()
    assert job is not None
    entries = [_submitted(job), *_claimed(job), *_cancellation(job)]
    entries += [_event(row) async for row in _rows(conn, EVENTS, job_id, TOLD_ELSEWHERE)]
    entries += [_move(row) async for row in _rows(conn, MOVES, job_id)]
    entries += [_act(row) async for row in _rows(conn, ACTS, job_id)]
    if job["status"] in ENDED and f"job.{job['status']}" not in {entry.what for entry in entries}:
        entries.append(_end(job))
    return entries


async def _rows(conn: AsyncConnection[DictRow], sql: str, *parameters: Any) -> AsyncIterator[DictRow]:
    for row in await (await conn.execute(sql, parameters)).fetchall():
        yield row


def _submitted(job: DictRow) -> Entry:
    facts = {"agent": job["agent"], "thread_id": job["thread_id"], "door": job["door"], "labels": job["labels"]}
    text = f"to {job['agent']} through {job['door']}: {short(job['input'])}"
    ids = {"job": job["id"]}
    return Entry(job["created_at"], "job.submitted", job["submitted_by"], text, ids, {**facts, "input": job["input"]})


def _claimed(job: DictRow) -> list[Entry]:
    """The newest claim; of earlier ones their attempts and what came of them are left."""
    if job["claimed_at"] is None:
        return []
    text = f"by a worker, under fence {job['fence']}"
    facts = {"fence": job["fence"], "tries": job["tries"]}
    return [Entry(job["claimed_at"], "job.claimed", job["worker"], text, facts=facts)]


def _cancellation(job: DictRow) -> list[Entry]:
    if job["cancel_requested_at"] is None:
        return []
    return [Entry(job["cancel_requested_at"], "job.cancel_requested", job["cancel_requested_by"])]


def _event(row: DictRow) -> Entry:
    noun, verb = row["type"].split(".")[1:3]
    data = row["data"]
    known = {name: data[name] for name in ("code", "message", "reason", "operations") if name in data}
    said = [str(known[name]) for name in ("code", "message", "reason") if known.get(name)]
    text = short(": ".join(said)) or _answer(data.get("result"))
    return Entry(row["at"], f"{noun}.{verb}", row["actor"], text, facts=known, rank=9)


def _move(row: DictRow) -> Entry:
    code = row["body"].get("error")
    return Entry(row["at"], row["act"], row["actor"], code or "", facts={"code": code}, rank=8)


def _act(row: DictRow) -> Entry:
    ids = {"subject": row["subject"], "request": row["request_id"]}
    return Entry(row["at"], f"operator.{row['act']}", row["actor"], short(row["reason"]), ids, rank=7)


def _end(job: DictRow) -> Entry:
    failed = job["status"] == JobStatus.failed
    text = f"{job['error_code']}: {short(job['error_message'])}" if failed else _answer(job["result"])
    return Entry(job["ended_at"], f"job.{job['status']}", None, text, rank=9)


def _answer(result: Any) -> str:
    if isinstance(result, dict) and isinstance(result.get("text"), str):
        return short(result["text"])
    return "" if result is None else short(json.dumps(result, ensure_ascii=False))
