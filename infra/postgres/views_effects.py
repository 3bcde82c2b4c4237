"""The ledger as it is shown: effects, and one effect with every try, transition and late answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, may_reveal
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import EffectNotFound
from signoff.domain.filters import ANY_AGE, Age
from signoff.domain.hiding import masked
from signoff.infra.effect_results import result_view
from signoff.infra.postgres.views import Page, Query, iso, may_read_jobs, split_page, storable
from signoff.infra.postgres.views_effect_log import log_of

BRIEF = """e.operation_id, e.generation, e.job_id, e.thread_id, e.agent, e.tool, e.digest, e.hidden, e.class, e.status,
    e.attempts, e.alone, e.holds, e.waits_for, e.provider, e.origin, e.origin_operation, e.created_at,
    e.first_dispatched_at, e.last_dispatched_at, e.doubt_since, e.retry_at, e.probe_at, e.ended_at, e.purged_at,
    e.error_code, e.error_message, e.provider_reference"""
# Every decision that allowed exactly this call counts as an approval of it.
APPROVALS = """(SELECT json_agg(json_build_object('decision_id', o.id, 'type', o.type, 'reviewer', o.reviewer,
        'on_behalf_of', o.on_behalf_of, 'decided_at', o.decided_at) ORDER BY o.decided_at, o.id)
    FROM signoff.decisions o WHERE o.item_id = d.item_id AND o.counts AND o.type IN ('approve', 'edit')
        AND o.operation_id = e.operation_id AND o.digest = e.digest) AS approvals"""
FULL = f"""{BRIEF}, e.args, e.rule, e.policy_digest, e.standing_id, e.decision_id, e.changed, d.reviewer, d.decided_at,
    {APPROVALS}, e.result_type, e.result, ARRAY(SELECT x.operation_id FROM signoff.effects x
        WHERE x.origin_operation = e.operation_id ORDER BY x.created_at, x.operation_id) AS referred_by"""
NAMES = ("thread_id", "agent", "tool", "class", "status", "attempts", "alone", "holds", "waits_for", "provider")
TIMES = (
    "created_at",
    "first_dispatched_at",
    "last_dispatched_at",
    "doubt_since",
    "retry_at",
    "probe_at",
    "ended_at",
    "purged_at",
)
OF_REVIEWER = "EXISTS (SELECT 1 FROM signoff.decisions o WHERE o.id = e.decision_id AND o.reviewer = %(reviewer)s)"


@dataclass(frozen=True, slots=True)
class EffectFilter:
    """Which effects; None and nothing stand for any. `reviewer`: the person who allowed it."""

    status: Sequence[EffectStatus] = ()
    tool: str | None = None
    job_id: UUID | None = None
    agent: str | None = None
    reviewer: str | None = None
    error: str | None = None
    age: Age = ANY_AGE
    labels: Mapping[str, str] = field(default_factory=dict)

    def apply(self, query: Query) -> None:
        """For rows of `signoff.effects e` with `signoff.jobs j`. Raises InvalidRequest."""
        query.add_words("e.status", self.status)
        query.add_equal(e__tool=self.tool, e__job_id=self.job_id, e__agent=self.agent, e__error_code=self.error)
        query.add_age("e.created_at", self.age)
        query.add_labels("j.labels", self.labels)
        if self.reviewer is not None:
            query.add(OF_REVIEWER, reviewer=storable("reviewer", self.reviewer.removeprefix("@")))


async def list_effects(
    conn: AsyncConnection[DictRow], wanted: EffectFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"effects", "next"}: newest first, of jobs that `who` may read. Raises InvalidRequest."""
    page = page or Page()
    query = Query()
    may_read_jobs(query, who)
    wanted.apply(query)
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
    """One effect with arguments, result, and all that was done about it. Raises EffectNotFound.

    What a rule hides of the arguments is masked unless `who` may reveal it. Of one that was purged neither arguments
    nor result are there any more.
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
        "args": _args(row, who),
        "changed": row["changed"],
        "referred_by": row["referred_by"],
        "authority": _authority(row),
        "result": result_view(row["result_type"], row["result"]),
        **await log_of(conn, operation_id),
    }


def _args(row: DictRow, who: Principal) -> Mapping[str, Any] | None:
    args: Mapping[str, Any] | None = row["args"]
    return args if args is None or may_reveal(who) else masked(args, row["hidden"] or ())


def _brief(row: DictRow, who: Principal) -> dict[str, Any]:
    error = None if row["error_code"] is None else {"code": row["error_code"], "message": row["error_message"]}
    return {
        **{name: row[name] for name in ("operation_id", "generation")},
        "job_id": str(row["job_id"]),
        **{name: row[name] for name in NAMES},
        # With the rest in view, a short value that is hidden could be guessed by it.
        "digest": row["digest"] if may_reveal(who) or not row["hidden"] else None,
        **{name: iso(row[name]) for name in TIMES},
        "provider_reference": row["provider_reference"],
        "origin": _origin(row),
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


def _origin(row: DictRow) -> dict[str, Any] | None:
    """Of which effect it is a compensation, or the same call once more."""
    return row["origin"] and {"kind": row["origin"], "operation_id": row["origin_operation"]}
