"""What was done about one effect: tries, transitions, late answers, probes, alarms, operators' acts."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.infra.effect_results import result_view
from signoff.infra.postgres.views import iso

ATTEMPTS = """SELECT number, generation, worker, dispatched_at, outcome, message, ended_at FROM signoff.attempts
WHERE operation_id = %s ORDER BY number"""
HISTORY = """SELECT from_status AS "from", to_status AS "to", actor, reason, reference, at FROM signoff.effect_events
WHERE operation_id = %s ORDER BY position"""
EVIDENCE = """SELECT attempt, worker, outcome, message, settled, result_type, result, at FROM signoff.evidence
WHERE operation_id = %s ORDER BY position"""
PROBES = """SELECT attempt, actor, finding, reference, message, at FROM signoff.probes
WHERE operation_id = %s ORDER BY position"""
ALARMS = """SELECT id::text AS alarm_id, kind, message, at, acknowledged_at, acknowledged_by FROM signoff.alarms
WHERE operation_id = %s ORDER BY at, id"""
ACTS = """SELECT act, actor, reason, request_id, at FROM signoff.operator_acts WHERE subject = %s ORDER BY position"""
SETTLEMENT = """SELECT id::text AS settlement_id, act, body, reason, proposed_by, proposed_at FROM signoff.settlements
WHERE operation_id = %s AND ending IS NULL"""
TIMES = frozenset({"at", "dispatched_at", "ended_at", "acknowledged_at", "proposed_at"})


async def log_of(conn: AsyncConnection[DictRow], operation_id: str) -> dict[str, Any]:
    """Each oldest first; `settlement` is what one person has found and another has still to confirm, or None."""
    settlements = await _rows(conn, SETTLEMENT, operation_id)
    return {
        "attempt_log": await _rows(conn, ATTEMPTS, operation_id),
        "history": await _rows(conn, HISTORY, operation_id),
        "evidence": [_evidence(found) for found in await _rows(conn, EVIDENCE, operation_id)],
        "probes": await _rows(conn, PROBES, operation_id),
        "alarms": await _rows(conn, ALARMS, operation_id),
        "acts": await _rows(conn, ACTS, operation_id),
        "settlement": settlements[0] if settlements else None,
    }


async def _rows(conn: AsyncConnection[DictRow], sql: str, operation_id: str) -> list[dict[str, Any]]:
    rows = await (await conn.execute(sql, (operation_id,))).fetchall()
    return [{name: iso(value) if name in TIMES else value for name, value in row.items()} for row in rows]


def _evidence(row: dict[str, Any]) -> dict[str, Any]:
    kind, raw = row.pop("result_type"), row.pop("result")
    return {**row, "result": result_view(kind, raw)}
