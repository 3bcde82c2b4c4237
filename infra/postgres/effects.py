"""The ledger in Postgres: each transition one guarded statement, with its history row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.authority import Principal
from signoff.domain.effects import ENDED, Effect, EffectClass, EffectStatus, Outcome, Step, Terms, sources_of
from signoff.domain.errors import DigestMismatch, LeaseLost
from signoff.domain.events import NewEvent
from signoff.domain.jobs import Job
from signoff.domain.reviews import Decision, Item
from signoff.infra.postgres.events import TELL, event_parameters
from signoff.infra.postgres.principals import principal_of

COLUMNS = """e.operation_id, e.generation, e.job_id, e.thread_id, e.tool, e.args, e.digest, e.status, e.attempts,
    e.fence, e.first_dispatched_at, e.doubt_since, e.retry_at, e.result_type, e.result, e.error_code, e.error_message,
    e.provider_reference"""

PLAN = """
INSERT INTO signoff.effects (operation_id, job_id, thread_id, agent, tool, args, digest, status, decision_id)
VALUES (%s, %s, %s, %s, %s, %s, %s, 'planned', %s) ON CONFLICT (operation_id) DO NOTHING
"""

# Everything that the executor's judgement needs, in one look: the effect, the items that the call ever was in, the
# decision that covers it, and who decided, as they are now. The effect's row stays locked.
EXAMINE = f"""
SELECT clock_timestamp() AS now, e.alone, e.lease_until, {COLUMNS},
    d.id AS decision_id, d.digest AS decision_digest, d.decided_at,
    i.approval_valid_for_seconds, i.reviewers AS item_reviewers,
    signoff.principal(d.reviewer) AS reviewer
FROM signoff.effects e
LEFT JOIN signoff.decisions d ON d.id = e.decision_id
LEFT JOIN signoff.items i ON i.id = d.item_id
WHERE e.operation_id = %s FOR UPDATE OF e
"""

ALLOW = """
INSERT INTO signoff.effects
    (operation_id, job_id, thread_id, agent, tool, args, digest, class, status, rule, policy_digest)
SELECT %(operation_id)s, %(job_id)s, %(thread_id)s, %(agent)s, %(tool)s, %(args)s, %(digest)s, %(class)s, 'planned',
    %(rule)s, %(policy_digest)s
WHERE NOT EXISTS (SELECT 1 FROM signoff.items WHERE operation_id = %(operation_id)s)
ON CONFLICT (operation_id) DO NOTHING RETURNING operation_id
"""

DISPATCH = """
WITH sent AS (
    UPDATE signoff.effects SET status = 'dispatched', attempts = attempts + 1, fence = %(fence)s, class = %(class)s,
        window_seconds = %(window)s, first_dispatched_at = coalesce(first_dispatched_at, clock_timestamp()),
        retry_at = NULL, error_code = NULL, error_message = NULL, lease_until = %(lease_until)s
    WHERE operation_id = %(operation_id)s AND status = ANY(%(sources)s) AND digest = %(digest)s
    RETURNING operation_id, attempts, generation, first_dispatched_at),
attempt AS (
    INSERT INTO signoff.attempts (operation_id, number, generation, fence, worker)
    SELECT operation_id, attempts, generation, %(fence)s, %(worker)s FROM sent)
SELECT attempts, first_dispatched_at FROM sent
"""

# The job's row is locked first, and under its fence if one is named: no effect's row is touched before it has answered.
# Its event number is raised with the event, if there is one.
MOVE = f"""
WITH fenced AS (
    SELECT id FROM signoff.jobs WHERE id = %(job_id)s
        AND (%(job_fence)s::bigint IS NULL OR (fence = %(job_fence)s AND status = 'running')) FOR NO KEY UPDATE),
moved AS (
    UPDATE signoff.effects e SET status = %(to)s,
        doubt_since = CASE WHEN %(doubt)s THEN coalesce(doubt_since, clock_timestamp()) END,
        retry_at = %(retry_at)s,
        generation = generation + CASE WHEN %(raise)s THEN 1 ELSE 0 END,
        first_dispatched_at = CASE WHEN %(raise)s THEN NULL ELSE first_dispatched_at END,
        alone = alone OR %(alone)s, lease_until = NULL, offered_at = NULL, awaits_operator = false,
        result_type = coalesce(%(result_type)s, result_type), result = coalesce(%(result)s, result),
        error_code = %(code)s, error_message = %(message)s,
        provider_reference = coalesce(%(reference)s, provider_reference),
        ended_at = CASE WHEN %(ended)s THEN clock_timestamp() END
    FROM fenced WHERE e.job_id = fenced.id AND e.operation_id = %(operation_id)s
        AND e.status = %(from)s AND e.status = ANY(%(sources)s) AND e.fence IS NOT DISTINCT FROM %(fence)s
    RETURNING e.operation_id, e.job_id),
history AS (
    INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason, reference)
    SELECT operation_id, %(from)s, %(to)s, %(actor)s, %(reason)s, %(reference)s FROM moved),
attempt AS (
    UPDATE signoff.attempts a SET outcome = %(outcome)s, message = %(message)s, ended_at = clock_timestamp()
    FROM moved WHERE a.operation_id = moved.operation_id AND a.number = %(number)s AND %(outcome)s::text IS NOT NULL),
told AS (
    UPDATE signoff.jobs j SET event_sequence = event_sequence + 1 FROM moved
    WHERE j.id = moved.job_id AND %(event_type)s::text IS NOT NULL RETURNING j.id, j.event_sequence),
event AS ({TELL})
SELECT operation_id FROM moved
"""

# What never left is cancelled; what may have left stays in doubt.
CANCEL_UNSENT = """
WITH moved AS (
    UPDATE signoff.effects e SET retry_at = NULL,
        status = CASE WHEN e.doubt_since IS NULL THEN 'cancelled' ELSE 'in_doubt' END,
        ended_at = CASE WHEN e.doubt_since IS NULL THEN clock_timestamp() END
    FROM (SELECT operation_id, status FROM signoff.effects WHERE job_id = %(job)s AND NOT alone
        AND status IN ('planned', 'retry_wait') ORDER BY operation_id FOR UPDATE) AS was
    WHERE e.operation_id = was.operation_id RETURNING e.operation_id, was.status AS was, e.status)
INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason)
SELECT operation_id, was, status, %(actor)s, 'the job ended' FROM moved
"""


# The same, for calls that were refused after they had been allowed.
REVOKE_UNSENT = """
WITH moved AS (
    UPDATE signoff.effects e SET retry_at = NULL,
        status = CASE WHEN e.doubt_since IS NULL THEN 'revoked' ELSE 'in_doubt' END,
        error_code = 'revoked', error_message = %(reason)s,
        ended_at = CASE WHEN e.doubt_since IS NULL THEN clock_timestamp() END
    FROM (SELECT operation_id, status FROM signoff.effects WHERE operation_id = ANY(%(operations)s)
        AND status IN ('planned', 'retry_wait') ORDER BY operation_id FOR UPDATE) AS was
    WHERE e.operation_id = was.operation_id RETURNING e.operation_id, was.status AS was, e.status)
INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason)
SELECT operation_id, was, status, %(actor)s, %(reason)s FROM moved
"""


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision that an effect stands on, and who made it, as they are now."""

    decision_id: UUID
    digest: str
    decided_at: datetime
    valid_for_seconds: float | None
    reviewers: tuple[str, ...]
    reviewer: Principal


@dataclass(frozen=True, slots=True)
class Examined:
    """An effect under lock; `approval` is None if it stands on a rule that allows it.

    `lease_until` is there while it is sent by itself, beside the runs of its job.
    """

    effect: Effect
    approval: Approval | None
    now: datetime
    alone: bool
    lease_until: datetime | None


class EffectTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def job_of(self, operation_id: str) -> UUID | None:
        cursor = await self._conn.execute("SELECT job_id FROM signoff.effects WHERE operation_id = %s", (operation_id,))
        row = await cursor.fetchone()
        return None if row is None else row["job_id"]

    async def lock(self, operation_id: str) -> Effect | None:
        cursor = await self._conn.execute(
            f"SELECT {COLUMNS} FROM signoff.effects e WHERE e.operation_id = %s FOR UPDATE", (operation_id,)
        )
        row = await cursor.fetchone()
        return None if row is None else effect_of(row)

    async def plan(self, job: Job, items: Sequence[Item], decisions: Sequence[Decision]) -> None:
        for item, decision in zip(items, decisions, strict=True):
            args = Json(dict(decision.args or {}))
            parameters = (
                decision.operation_id,
                job.id,
                job.thread_id,
                job.agent,
                item.tool,
                args,
                decision.digest,
                decision.id,
            )
            cursor = await self._conn.execute(PLAN, parameters)
            if cursor.rowcount == 0:
                await self._require_same(decision.operation_id, decision.digest)

    async def examine(self, operation_id: str) -> Examined | None:
        """The effect, locked, with the approval that it stands on."""
        row = await (await self._conn.execute(EXAMINE, (operation_id,))).fetchone()
        if row is None:
            return None
        approval = _approval_of(row) if row["decision_id"] else None
        return Examined(effect_of(row), approval, row["now"], row["alone"], row["lease_until"])

    async def allow(self, job: Job, effect: Effect, effect_class: EffectClass, rule: str, policy_digest: str) -> bool:
        """Plans an effect that the policy allows. False if the call has ever been an item of a review."""
        parameters = {
            "operation_id": effect.operation_id,
            "job_id": job.id,
            "thread_id": job.thread_id,
            "agent": job.agent,
            "tool": effect.tool,
            "args": Json(dict(effect.args)),
            "digest": effect.digest,
            "class": effect_class,
            "rule": rule,
            "policy_digest": policy_digest,
        }
        return await (await self._conn.execute(ALLOW, parameters)).fetchone() is not None

    async def dispatch(
        self, effect: Effect, terms: Terms, *, fence: int, worker: str, lease_until: datetime | None = None
    ) -> Effect:
        """Marks the dispatch and opens the attempt; commit before the first byte leaves. Returns the effect as sent.

        Raises:
            LeaseLost: the effect is not where it can be sent from.
        """
        parameters = {
            "operation_id": effect.operation_id,
            "digest": effect.digest,
            "fence": fence,
            "worker": worker,
            "class": terms.effect_class,
            "window": terms.window.total_seconds() if terms.window else None,
            "lease_until": lease_until,
            "sources": sources_of(EffectStatus.dispatched),
        }
        row = await (await self._conn.execute(DISPATCH, parameters)).fetchone()
        if row is None:
            raise LeaseLost(f"the effect {effect.operation_id} can't be dispatched from where it is")
        sent = {"attempts": row["attempts"], "first_dispatched_at": row["first_dispatched_at"], "fence": fence}
        return replace(effect, status=EffectStatus.dispatched, retry_at=None, **sent)

    async def move(
        self,
        effect: Effect,
        step: Step,
        *,
        actor: str,
        reference: str | None = None,
        result: tuple[str, bytes] | None = None,
        error: tuple[str, str] | None = None,
        new_generation: bool = False,
        alone: bool = False,
        outcome: Outcome | None = None,
        event: NewEvent | None = None,
        job_fence: int | None = None,
    ) -> bool:
        """Also ends the attempt, if the step follows from one: with its `outcome`.

        With `job_fence` it is a fenced transaction of its own, and False also if that fence is gone.
        """
        result_type, payload = result or (None, None)
        code, message = error or (None, None)
        parameters = {
            "operation_id": effect.operation_id,
            "job_id": effect.job_id,
            "job_fence": job_fence,
            "from": effect.status,
            "to": step.to,
            "sources": sources_of(step.to),
            "fence": effect.fence,
            "doubt": step.doubt,
            "retry_at": step.retry_at,
            "raise": new_generation,
            "alone": alone,
            "result_type": result_type,
            "result": payload,
            "code": code,
            "message": message,
            "reference": reference,
            "ended": step.to in ENDED,
            "actor": actor,
            "reason": step.reason,
            "outcome": outcome,
            "number": effect.attempts,
            **event_parameters(event),
        }
        return await (await self._conn.execute(MOVE, parameters)).fetchone() is not None

    async def cancel_unsent(self, job_id: UUID, actor: str) -> None:
        await self._conn.execute(CANCEL_UNSENT, {"job": job_id, "actor": actor})

    async def revoke_unsent(self, operation_ids: Sequence[str], actor: str, reason: str) -> None:
        parameters = {"operations": list(operation_ids), "actor": actor, "reason": reason}
        await self._conn.execute(REVOKE_UNSENT, parameters)

    async def lapsed(self, limit: int) -> Sequence[Effect]:
        """Effects that were dispatched by a worker which no longer has the right to record them. Not locked."""
        cursor = await self._conn.execute(
            # Who sent it shows in the fence: a job's are positive, those of a call that runs by itself are not.
            f"SELECT {COLUMNS} FROM signoff.effects e WHERE e.status = 'dispatched' AND CASE WHEN e.fence < 0"
            " THEN e.lease_until < clock_timestamp()"
            " ELSE NOT EXISTS (SELECT 1 FROM signoff.jobs j WHERE j.id = e.job_id AND j.fence = e.fence"
            " AND j.status = 'running') END ORDER BY e.created_at LIMIT %s",
            (limit,),
        )
        return [effect_of(row) for row in await cursor.fetchall()]

    async def take_due_alone(self, backoff: timedelta, limit: int) -> Sequence[tuple[str, str]]:
        """(agent, operation id) of effects that run by themselves and are due; they count as offered now.

        Those in doubt too, where the tool may have a way out, until `leave_to_operator`.
        """
        cursor = await self._conn.execute(
            "UPDATE signoff.effects SET offered_at = clock_timestamp() WHERE operation_id IN ("
            " SELECT operation_id FROM signoff.effects WHERE alone AND NOT awaits_operator"
            " AND status IN ('planned', 'retry_wait', 'in_doubt') AND (status <> 'in_doubt' OR class <> 'opaque')"
            " AND (retry_at IS NULL OR retry_at <= clock_timestamp())"
            " AND (offered_at IS NULL OR offered_at < clock_timestamp() - %s)"
            " ORDER BY created_at LIMIT %s FOR NO KEY UPDATE SKIP LOCKED) RETURNING agent, operation_id",
            (backoff, limit),
        )
        return [(row["agent"], row["operation_id"]) for row in await cursor.fetchall()]

    async def leave_to_operator(self, operation_id: str) -> None:
        """Offers the effect no more until it has moved."""
        await self._conn.execute(
            "UPDATE signoff.effects SET awaits_operator = true WHERE operation_id = %s", (operation_id,)
        )

    async def is_unanswered(self, effect: Effect) -> bool:
        """True if nothing was recorded of its newest attempt: the worker was lost."""
        cursor = await self._conn.execute(
            "SELECT FROM signoff.attempts WHERE operation_id = %s AND number = %s AND outcome IS NULL",
            (effect.operation_id, effect.attempts),
        )
        return await cursor.fetchone() is not None

    async def keep_evidence(
        self, effect: Effect, worker: str, outcome: Outcome, message: str | None, result: tuple[str, bytes] | None
    ) -> None:
        """Keeps what came back after the fence was lost: append-only, never under the fence."""
        result_type, payload = result or (None, None)
        await self._conn.execute(
            "INSERT INTO signoff.evidence (operation_id, fence, worker, outcome, message, result_type, result)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (effect.operation_id, effect.fence, worker, outcome, message, result_type, payload),
        )

    async def _require_same(self, operation_id: str, digest: str) -> None:
        effect = await self.lock(operation_id)
        if effect is None or effect.digest != digest:
            raise DigestMismatch(f"the operation {operation_id} exists with another call")


def effect_of(row: DictRow) -> Effect:
    names = Effect.__dataclass_fields__
    return Effect(**{**{name: row[name] for name in names}, "status": EffectStatus(row["status"])})


def _approval_of(row: DictRow) -> Approval:
    return Approval(
        decision_id=row["decision_id"],
        digest=row["decision_digest"],
        decided_at=row["decided_at"],
        valid_for_seconds=row["approval_valid_for_seconds"],
        reviewers=tuple(row["item_reviewers"] or ()),
        reviewer=principal_of(row["reviewer"]),
    )
