"""The ledger as it is shown: effects, and one effect with every try, transition and late answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, may_reveal
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import EffectNotFound
from signoff.domain.hiding import masked
from signoff.infra.effect_results import result_view
from signoff.infra.postgres.views import Page, Query, iso, may_read_jobs, split_page

BRIEF = """e.operation_id, e.generation, e.job_id, e.thread_id, e.agent, e.tool, e.digest, e.hidden, e.class, e.status,
    e.attempts, e.alone, e.created_at, e.first_dispatched_at, e.doubt_since, e.retry_at, e.ended_at, e.error_code,
    e.error_message, e.provider_reference"""
# Every decision that allowed exactly this call counts as an approval of it.
APPROVALS = """(SELECT json_agg(json_build_object('decision_id', o.id, 'type', o.type, 'reviewer', o.reviewer,
        'on_behalf_of', o.on_behalf_of, 'decided_at', o.decided_at) ORDER BY o.decided_at, o.id)
    FROM signoff.decisions o WHERE o.item_id = d.item_id AND o.counts AND o.type IN ('approve', 'edit')
        AND o.operation_id = e.operation_id AND o.digest = e.digest) AS approvals"""
FULL = f"""{BRIEF}, e.args, e.rule, e.policy_digest, e.standing_id, e.decision_id, d.reviewer, d.decided_at,
    {APPROVALS}, e.result_type, e.result"""
TIMES = ("created_at", "first_dispatched_at", "doubt_since", "retry_at", "ended_at")

ATTEMPTS = """SELECT number, generation, worker, dispatched_at, outcome, message, ended_at FROM signoff.attempts
WHERE operation_id = %s ORDER BY number"""
HISTORY = """SELECT from_status AS "from", to_status AS "to", actor, reason, reference, at FROM signoff.effect_events
WHERE operation_id = %s ORDER BY position"""
EVIDENCE = """SELECT worker, outcome, message, result_type, result, at FROM signoff.evidence
WHERE operation_id = %s ORDER BY position"""


@dataclass(frozen=True, slots=True)
class EffectFilter:
    """Which effects; None stands for any."""

    status: EffectStatus | None = None
    tool: str | None = None
    job_id: UUID | None = None


async def list_effects(
    conn: AsyncConnection[DictRow], wanted: EffectFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"effects", "next"}: newest first, of jobs that `who` may read. Raises InvalidRequest."""
    page = page or Page()
    query = Query()
    may_read_jobs(query, who)
    query.add_equal(e__status=wanted.status, e__tool=wanted.tool, e__job_id=wanted.job_id)
    query.add_page(page, "e.created_at", "e.operation_id")
    rows = await (
        await conn.execute(
            f"SELECT {BRIEF} FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id WHERE {query.where}"
            " ORDER BY e.created_at DESC, e.operation_id DESC LIMIT %(rows)s",
            query.parameters,
        )
    ).fetchall()
    kept, after = split_page(rows, page, "operation_id")
    return {"effects": [_brief(row, who) for row in kept], "next": after}


async def show_effect(conn: AsyncConnection[DictRow], operation_id: str, who: Principal) -> dict[str, Any]:
    """One effect with arguments, result, attempts, history and evidence. Raises EffectNotFound.

    What a rule hides of the arguments is masked unless `who` may reveal it.
    """
    query = Query()
    may_read_jobs(query, who)
    query.add_equal(e__operation_id=operation_id)
    row = await (
        await conn.execute(
            f"SELECT {FULL} FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id"
            f" LEFT JOIN signoff.decisions d ON d.id = e.decision_id WHERE {query.where}",
            query.parameters,
        )
    ).fetchone()
    if row is None:
        raise EffectNotFound(f"there is no effect {operation_id} that you may read")
    return {
        **_brief(row, who),
        "args": row["args"] if may_reveal(who) else masked(row["args"], row["hidden"] or ()),
        "authority": _authority(row),
        "result": result_view(row["result_type"], row["result"]),
        "attempt_log": await _rows(conn, ATTEMPTS, operation_id),
        "history": await _rows(conn, HISTORY, operation_id),
        "evidence": [_evidence(found) for found in await _rows(conn, EVIDENCE, operation_id)],
    }


def _brief(row: DictRow, who: Principal) -> dict[str, Any]:
    error = None if row["error_code"] is None else {"code": row["error_code"], "message": row["error_message"]}
    return {
        **{name: row[name] for name in ("operation_id", "generation")},
        "job_id": str(row["job_id"]),
        **{name: row[name] for name in ("thread_id", "agent", "tool", "class", "status", "attempts", "alone")},
        # With the rest in view, a short value that is hidden could be guessed by it.
        "digest": row["digest"] if may_reveal(who) or not row["hidden"] else None,
        **{name: iso(row[name]) for name in TIMES},
        "provider_reference": row["provider_reference"],
        "error": error,
    }


def _authority(row: DictRow) -> dict[str, Any]:
    """What the effect stands on: decisions, or a rule or a standing approval that allows it."""
    return {
        "decision_id": None if row["decision_id"] is None else str(row["decision_id"]),
        "reviewer": row["reviewer"],
        "decided_at": iso(row["decided_at"]),
        "rule": row["rule"],
        "policy_digest": row["policy_digest"],
        "standing_id": None if row["standing_id"] is None else str(row["standing_id"]),
        "approvals": [{**found, "decided_at": _utc(found["decided_at"])} for found in row["approvals"] or ()],
    }


def _utc(time: str) -> str | None:
    return iso(datetime.fromisoformat(time))


async def _rows(conn: AsyncConnection[DictRow], sql: str, operation_id: str) -> list[dict[str, Any]]:
    rows = await (await conn.execute(sql, (operation_id,))).fetchall()
    times = ("at", "dispatched_at", "ended_at")
    return [{name: iso(value) if name in times else value for name, value in row.items()} for row in rows]


def _evidence(row: dict[str, Any]) -> dict[str, Any]:
    kind, raw = row.pop("result_type"), row.pop("result")
    return {**row, "result": result_view(kind, raw)}
