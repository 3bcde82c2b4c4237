"""Both logs beside each other: the ledger in Postgres, and the outside services' own books. What breaks a promise?

The invariants are those of the fault table, by their numbers. Each judge gives sentences, one for each breach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.canonical import call_digest

NEVER_HAPPENED = frozenset({"failed", "dead", "cancelled", "revoked", "planned"})
JOB_ENDS = frozenset({"succeeded", "failed", "cancelled"})
OPERATOR_ACTS = "SELECT DISTINCT operation_id FROM signoff.effect_events WHERE to_status IN ('skipped', 'planned')"

# Each selects what must not be there, as (what, detail).
LEDGER: Mapping[str, str] = {
    "I1 a decided review of an ended job was never resumed": (
        "SELECT r.id::text AS what, j.status AS detail FROM signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id"
        " WHERE r.status = 'decided' AND r.resumed_at IS NULL AND j.status = 'succeeded'"
    ),
    "I1 an allowed item has no effect": (
        "SELECT i.id::text AS what, d.type AS detail FROM signoff.items i"
        " JOIN signoff.decisions d ON d.id = i.decision_id WHERE d.type IN ('approve', 'edit') AND NOT EXISTS"
        " (SELECT FROM signoff.effects e WHERE e.operation_id = d.operation_id)"
    ),
    "I2 a review asks for the same call twice": (
        "SELECT operation_id AS what, count(*)::text AS detail FROM signoff.items WHERE status <> 'superseded'"
        " GROUP BY operation_id, digest, review_id HAVING count(*) > 1"
    ),
    "I3 what ran is not what was decided": (
        "SELECT e.operation_id AS what, d.digest AS detail FROM signoff.effects e"
        " JOIN signoff.decisions d ON d.id = e.decision_id WHERE d.digest <> e.digest"
    ),
    "I4 a try has no number of its own, or an older fence than the one before": (
        "SELECT operation_id AS what, number::text AS detail FROM (SELECT operation_id, number, fence,"
        " lag(fence) OVER w AS before, row_number() OVER w AS place FROM signoff.attempts"
        " WINDOW w AS (PARTITION BY operation_id ORDER BY number)) a"
        " WHERE place <> number OR (fence > 0 AND before > 0 AND fence < before)"
    ),
    "I5 in doubt, and said not to have happened": (
        "SELECT operation_id AS what, status AS detail FROM signoff.effects"
        " WHERE doubt_since IS NOT NULL AND status IN ('failed', 'dead', 'cancelled', 'revoked', 'planned')"
    ),
    "I5 a last try of unknown outcome, and certainty without a word about it": (
        "SELECT e.operation_id AS what, e.status AS detail FROM signoff.effects e"
        " JOIN signoff.attempts a ON a.operation_id = e.operation_id AND a.number = e.attempts"
        " WHERE e.status IN ('succeeded', 'failed') AND a.outcome IS NULL AND NOT EXISTS"
        " (SELECT FROM signoff.effect_events v WHERE v.operation_id = e.operation_id AND v.from_status = 'in_doubt')"
        " AND NOT EXISTS (SELECT FROM signoff.evidence k WHERE k.operation_id = e.operation_id)"
    ),
    "I7 a checkpoint of a thread has two children": (
        "SELECT thread_id AS what, parent_checkpoint_id AS detail FROM langgraph.checkpoints"
        " WHERE checkpoint_ns = '' AND parent_checkpoint_id IS NOT NULL AND NOT EXISTS"
        " (SELECT FROM signoff.threads t WHERE t.id = thread_id AND t.forked_from IS NOT NULL)"
        " GROUP BY thread_id, parent_checkpoint_id HAVING count(*) > 1"
    ),
    "I8 an ended effect has moved": (
        "SELECT operation_id AS what, from_status || ' to ' || to_status AS detail FROM signoff.effect_events"
        " WHERE from_status IN ('succeeded', 'revoked', 'cancelled', 'skipped')"
    ),
    "I9 a job's events have a gap, or one is there twice": (
        "SELECT job_id::text AS what, sequence::text AS detail FROM (SELECT job_id, sequence,"
        " row_number() OVER (PARTITION BY job_id ORDER BY sequence) AS place FROM signoff.events"
        " WHERE job_id IS NOT NULL) e WHERE place <> sequence"
    ),
    "I10 who decided may not": (
        "SELECT d.id::text AS what, d.reviewer AS detail FROM signoff.decisions d"
        " JOIN signoff.principals p ON p.name = d.reviewer JOIN signoff.items i ON i.id = d.item_id"
        " JOIN signoff.reviews r ON r.id = i.review_id JOIN signoff.jobs j ON j.id = r.job_id"
        " WHERE p.kind <> 'person' OR NOT 'review' = ANY (p.rights) OR d.reviewer = j.submitted_by"
    ),
}

# What may not be left once faults have stopped and people have settled what is theirs.
REST: Mapping[str, str] = {
    "I6 a job has not ended": (
        "SELECT id::text AS what, status || ' ' || coalesce(error_code, '') AS detail FROM signoff.jobs"
        " WHERE status NOT IN ('succeeded', 'failed', 'cancelled')"
    ),
    "I6 an effect has not ended": (
        "SELECT operation_id AS what, tool || ' ' || status AS detail FROM signoff.effects"
        " WHERE status NOT IN ('succeeded', 'failed', 'revoked', 'cancelled', 'skipped')"
    ),
    "I6 a review is open though its job has ended": (
        "SELECT r.id::text AS what, j.status AS detail FROM signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id"
        " WHERE r.status = 'pending' AND j.status IN ('succeeded', 'failed', 'cancelled')"
    ),
}


@dataclass(frozen=True, slots=True)
class Applied:
    """One thing that was really done, as the service that did it tells."""

    operation: str
    tool: str
    args: Mapping[str, Any] | None = None


async def judge_ledger(conn: AsyncConnection[DictRow], *, at_rest: bool = True) -> list[str]:
    """What the ledger alone shows to be broken. Not `at_rest`: work may be under way or wait for people."""
    breaches = []
    for name, sql in {**LEDGER, **(REST if at_rest else {})}.items():
        rows = await (await conn.execute(sql)).fetchall()
        breaches += [f"{name}: {row['what']} ({row['detail']})" for row in rows]
    return breaches


async def judge_once(conn: AsyncConnection[DictRow], applied: Iterable[Applied]) -> list[str]:
    """I3, I4, I5: the ledger beside what was really done."""
    rows = await (
        await conn.execute("SELECT operation_id, tool, args, digest, status, doubt_since FROM signoff.effects")
    ).fetchall()
    effects = {row["operation_id"]: row for row in rows}
    done = list(applied)
    times = Counter(one.operation for one in done)
    breaches = [f"I4 done {count} times: {operation}" for operation, count in times.items() if count > 1]
    for one in done:
        breaches += _differs(one, effects.get(one.operation))
    for operation, effect in effects.items():
        breaches += _uncertain(operation, effect, times[operation])
    return breaches


def _differs(one: Applied, effect: Mapping[str, Any] | None) -> list[str]:
    if effect is None:
        return [f"I3 done, and nowhere in the ledger: {one.tool} {one.operation}"]
    wanted = (effect["tool"], effect["digest"])
    if one.args is not None and (one.tool, call_digest(one.tool, one.args)) != wanted:
        return [f"I3 done otherwise than the ledger says: {one.operation}"]
    return []


def _uncertain(operation: str, effect: Mapping[str, Any], count: int) -> list[str]:
    status = effect["status"]
    if status == "succeeded" and count != 1:
        return [f"I5 the ledger says succeeded, done {count} times: {effect['tool']} {operation}"]
    sure = status in NEVER_HAPPENED or (status == "retry_wait" and effect["doubt_since"] is None)
    if sure and count:
        return [f"I5 the ledger says {status}, and it was done: {effect['tool']} {operation}"]
    return []


def require_none(breaches: Sequence[str], story: Callable[[], str] = str) -> None:
    """Fails with every breach, and with the story of the processes."""
    assert not breaches, "\n".join([*breaches[:50], story()])
