"""What the ledger tells of a job: planned, sent, what came of each try, probes, late answers, alarms, settlements."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, may_reveal
from signoff.domain.hiding import masked
from signoff.infra.postgres.story_entries import Entry, short

_OF_JOB = "x.operation_id IN (SELECT operation_id FROM signoff.effects WHERE job_id = %s)"
EFFECTS = """SELECT e.operation_id, e.agent, e.tool, e.class, e.args, e.hidden, e.rule, e.decision_id, e.standing_id,
    d.reviewer, e.origin, e.origin_operation, e.created_at, e.purged_at
FROM signoff.effects e LEFT JOIN signoff.decisions d ON d.id = e.decision_id WHERE e.job_id = %s"""
ATTEMPTS = f"""SELECT x.operation_id, x.number, x.generation, x.fence, x.worker, x.dispatched_at, x.outcome, x.message,
    x.ended_at FROM signoff.attempts x WHERE {_OF_JOB}"""
# That a try succeeded, its end says.
MOVES = f"""SELECT x.operation_id, x.from_status, x.to_status, x.actor, x.reason, x.reference, x.at
FROM signoff.effect_events x WHERE {_OF_JOB} AND (x.from_status <> 'dispatched' OR x.to_status <> 'succeeded')"""
PROBES = f"""SELECT x.operation_id, x.attempt, x.actor, x.finding, x.reference, x.message, x.at
FROM signoff.probes x WHERE {_OF_JOB}"""
EVIDENCE = f"""SELECT x.operation_id, x.attempt, x.fence, x.worker, x.outcome, x.message, x.settled, x.at
FROM signoff.evidence x WHERE {_OF_JOB}"""
ALARMS = """SELECT id, operation_id, kind, message, at, acknowledged_at, acknowledged_by FROM signoff.alarms
WHERE job_id = %s"""
SETTLEMENTS = f"""SELECT x.id, x.operation_id, x.act, x.reason, x.proposed_by, x.proposed_at, x.ending, x.ended_by,
    x.ended_at FROM signoff.settlements x WHERE {_OF_JOB}"""

Tell = Callable[[DictRow], list[Entry]]


async def effect_entries(conn: AsyncConnection[DictRow], job_id: UUID, who: Principal) -> list[Entry]:
    """What a rule hides of the arguments is masked unless `who` may reveal it."""

    def planned(row: DictRow) -> list[Entry]:
        return [_planned(row, may_reveal(who))]

    told: Mapping[str, Tell] = {
        EFFECTS: planned,
        ATTEMPTS: _attempt,
        MOVES: _move,
        PROBES: _probe,
        EVIDENCE: _evidence,
        ALARMS: _alarm,
        SETTLEMENTS: _settlement,
    }
    entries: list[Entry] = []
    for sql, tell in told.items():
        rows = await (await conn.execute(sql, (job_id,))).fetchall()
        entries += [entry for row in rows for entry in tell(row)]
    return entries


def _planned(row: DictRow, reveal: bool) -> Entry:
    args = row["args"]
    shown = args if args is None or reveal else masked(args, row["hidden"] or ())
    arguments = "(arguments no longer kept)" if shown is None else json.dumps(shown, ensure_ascii=False)
    ids = {"operation": row["operation_id"], "decision": row["decision_id"], "standing": row["standing_id"]}
    facts = {"tool": row["tool"], "class": row["class"], "rule": row["rule"], "args": shown, "origin": row["origin"]}
    ids |= {"origin": row["origin_operation"]}
    text = short(f"{row['tool']} {arguments}, {_allowed(row)}")
    return Entry(row["created_at"], "effect.planned", row["reviewer"] or row["agent"], text, ids, facts, rank=5)


def _allowed(row: DictRow) -> str:
    if row["decision_id"] is not None:
        return f"allowed by {row['reviewer']}"
    if row["standing_id"] is not None:
        return f"allowed by the standing approval {row['standing_id']}"
    return f"allowed by the rule {row['rule']!r}"


def _attempt(row: DictRow) -> list[Entry]:
    ids = {"operation": row["operation_id"], "attempt": row["number"]}
    facts = {"fence": row["fence"], "generation": row["generation"]}
    sent = Entry(row["dispatched_at"], "attempt.sent", row["worker"], f"try {row['number']}", ids, facts, rank=6)
    if row["ended_at"] is None:
        return [sent]
    text = f"try {row['number']}: {row['outcome']}{_tail(row['message'])}"
    return [
        sent,
        Entry(row["ended_at"], "attempt.ended", row["worker"], text, ids, {"outcome": row["outcome"]}, rank=6),
    ]


def _move(row: DictRow) -> list[Entry]:
    ids = {"operation": row["operation_id"]}
    facts = {"from": row["from_status"], "to": row["to_status"], "reference": row["reference"]}
    text = f"{row['from_status']} to {row['to_status']}{_reference(row)}{_tail(row['reason'])}"
    return [Entry(row["at"], "effect.moved", row["actor"], text, ids, facts, rank=7)]


def _probe(row: DictRow) -> list[Entry]:
    ids = {"operation": row["operation_id"], "attempt": row["attempt"]}
    text = f"{row['finding']}{_reference(row)}{_tail(row['message'])}"
    facts = {"finding": row["finding"], "reference": row["reference"]}
    return [Entry(row["at"], "effect.probed", row["actor"], text, ids, facts, rank=6)]


def _evidence(row: DictRow) -> list[Entry]:
    ids = {"operation": row["operation_id"], "attempt": row["attempt"]}
    settled = ", which settled it" if row["settled"] else ""
    text = f"{row['outcome']}, too late for its fence{settled}{_tail(row['message'])}"
    facts = {name: row[name] for name in ("outcome", "settled", "fence")}
    return [Entry(row["at"], "evidence.kept", row["worker"], text, ids, facts, rank=6)]


def _alarm(row: DictRow) -> list[Entry]:
    ids = {"operation": row["operation_id"], "alarm": row["id"]}
    raised = Entry(row["at"], "alarm.raised", None, f"{row['kind']}{_tail(row['message'])}", ids, rank=8)
    if row["acknowledged_at"] is None:
        return [raised]
    return [raised, Entry(row["acknowledged_at"], "alarm.acknowledged", row["acknowledged_by"], row["kind"], ids)]


def _settlement(row: DictRow) -> list[Entry]:
    ids = {"operation": row["operation_id"], "settlement": row["id"]}
    text = f"{row['act']}, until another has confirmed it{_tail(row['reason'])}"
    proposed = Entry(row["proposed_at"], "settlement.proposed", row["proposed_by"], text, ids, rank=6)
    if row["ended_at"] is None:
        return [proposed]
    return [proposed, Entry(row["ended_at"], f"settlement.{row['ending']}", row["ended_by"], row["act"], ids, rank=6)]


def _reference(row: DictRow) -> str:
    return f" [{row['reference']}]" if row["reference"] else ""


def _tail(text: str | None) -> str:
    return f": {short(text)}" if text else ""
