"""The ledger in Postgres: each transition one guarded statement, with its history row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.canonical import operation_id
from signoff.domain.effect_events import event_of
from signoff.domain.effects import ENDED, Effect, EffectClass, EffectStatus, Outcome, Step, Terms, sources_of
from signoff.domain.errors import DigestMismatch, LeaseLost
from signoff.domain.events import NewEvent
from signoff.domain.jobs import Job
from signoff.domain.origins import Origin
from signoff.domain.policy import Judgement
from signoff.domain.reviews import Decision, Item
from signoff.infra.postgres.effects_examined import (
    COLUMNS,
    EXAMINE,
    NEWEST_ITEM,
    AskedBefore,
    Examined,
    asked_before_of,
    effect_of,
    examined_of,
)
from signoff.infra.postgres.events import TELL, EventTable, event_parameters
from signoff.infra.postgres.holdbacks import COVERS

__all__ = ["COLUMNS", "EffectTable", "effect_of"]

# An effect that has not left goes on with the newest decision about it: that is how a call goes on which went back to
# review. Any other is left alone.
PLAN = """
INSERT INTO signoff.effects AS e
    (operation_id, job_id, thread_id, agent, tool, args, digest, status, decision_id, hidden, alone, origin,
    origin_operation)
SELECT %(operation_id)s, %(job_id)s, %(thread_id)s, %(agent)s, %(tool)s, %(args)s, %(digest)s, 'planned',
    %(decision_id)s, %(hidden)s::text[], %(origin)s::text IS NOT NULL, %(origin)s, %(origin_operation)s
-- The same call in another form, in a fork or where it was forked from: one of them is carried out.
WHERE NOT EXISTS (SELECT FROM signoff.effects s WHERE s.operation_id = ANY(%(siblings)s)
    AND s.job_id <> %(job_id)s AND s.status NOT IN ('failed', 'revoked', 'cancelled'))
ON CONFLICT (operation_id) DO UPDATE
    SET decision_id = excluded.decision_id, hidden = coalesce(excluded.hidden, e.hidden)
WHERE e.status IN ('planned', 'retry_wait') AND e.digest = excluded.digest
"""

# A call that has ever been an item, or what an item became, runs by a decision alone; or because time has passed, where
# its review says so: `by_time` is then what the executor found out for itself.
# What a decision has made of a call of the job is such a one also where its review was never complete.
ALLOW = """
INSERT INTO signoff.effects
    (operation_id, job_id, thread_id, agent, tool, args, digest, class, status, rule, policy_digest, standing_id,
    hidden)
SELECT %(operation_id)s, %(job_id)s, %(thread_id)s, %(agent)s, %(tool)s, %(args)s, %(digest)s, %(class)s, 'planned',
    %(rule)s, %(policy_digest)s, %(standing_id)s::uuid, %(hidden)s::text[]
WHERE NOT EXISTS (SELECT FROM signoff.revisions WHERE operation_id = %(operation_id)s)
    AND (%(by_time)s::boolean OR NOT EXISTS (SELECT FROM signoff.items WHERE operation_id = %(operation_id)s)
        AND NOT EXISTS (SELECT FROM signoff.reviews r JOIN signoff.items i ON i.review_id = r.id
            JOIN signoff.decisions d ON d.item_id = i.id
            WHERE r.job_id = %(job_id)s AND d.operation_id = %(operation_id)s))
ON CONFLICT (operation_id) DO NOTHING RETURNING status
"""

DISPATCH = f"""
WITH sent AS (
    UPDATE signoff.effects e SET status = 'dispatched', attempts = attempts + 1, fence = %(fence)s, class = %(class)s,
        window_seconds = %(window)s, first_dispatched_at = coalesce(first_dispatched_at, clock_timestamp()),
        last_dispatched_at = clock_timestamp(), provider = coalesce(%(provider)s, agent || '/' || tool),
        retention_seconds = %(retention)s,
        retry_at = NULL, waits_for = NULL, error_code = NULL, error_message = NULL, lease_until = %(lease_until)s
    WHERE operation_id = %(operation_id)s AND status = ANY(%(sources)s) AND digest = %(digest)s
        AND NOT EXISTS (SELECT FROM signoff.pauses p WHERE {COVERS})
    RETURNING operation_id, attempts, generation, first_dispatched_at, last_dispatched_at),
attempt AS (
    INSERT INTO signoff.attempts (operation_id, number, generation, fence, worker)
    SELECT operation_id, attempts, generation, %(fence)s, %(worker)s FROM sent)
SELECT attempts, first_dispatched_at, last_dispatched_at FROM sent
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
        retry_at = %(retry_at)s, waits_for = NULL, probe_at = NULL, holds = %(holds)s,
        generation = generation + CASE WHEN %(raise)s THEN 1 ELSE 0 END,
        first_dispatched_at = CASE WHEN %(raise)s THEN NULL ELSE first_dispatched_at END,
        last_dispatched_at = CASE WHEN %(raise)s THEN NULL ELSE last_dispatched_at END,
        alone = alone OR %(alone)s, lease_until = NULL, offered_at = NULL, awaits_operator = false,
        result_type = coalesce(%(result_type)s, result_type), result = coalesce(%(result)s, result),
        error_code = %(code)s, error_message = %(message)s,
        provider_reference = coalesce(%(reference)s, provider_reference),
        ended_at = CASE WHEN %(ended)s THEN clock_timestamp() END
    FROM fenced WHERE e.job_id = fenced.id AND e.operation_id = %(operation_id)s
        AND e.status = %(from)s AND e.status = ANY(%(sources)s) AND e.fence IS NOT DISTINCT FROM %(fence)s
        AND e.attempts = %(number)s
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
    UPDATE signoff.effects e SET retry_at = NULL, waits_for = NULL,
        status = CASE WHEN e.doubt_since IS NULL THEN 'cancelled' ELSE 'in_doubt' END,
        ended_at = CASE WHEN e.doubt_since IS NULL THEN clock_timestamp() END
    FROM (SELECT operation_id, status FROM signoff.effects WHERE job_id = %(job)s AND NOT alone
        AND status IN ('planned', 'retry_wait') ORDER BY operation_id FOR UPDATE) AS was
    WHERE e.operation_id = was.operation_id RETURNING e.operation_id, was.status AS was, e.status),
asked AS (
    -- Whose provider can be asked is asked about what the job leaves in doubt.
    UPDATE signoff.effects SET probe_at = clock_timestamp(), offered_at = NULL
    WHERE job_id = %(job)s AND status = 'in_doubt' AND class = 'queryable' AND NOT awaits_operator AND NOT alone)
INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason)
SELECT operation_id, was, status, %(actor)s, 'the job ended' FROM moved RETURNING operation_id, to_status
"""


TAKE_ALONE = """
WITH alone AS (
    SELECT operation_id FROM signoff.effects WHERE alone AND NOT awaits_operator
        AND status IN ('planned', 'retry_wait', 'in_doubt') AND (status <> 'in_doubt' OR class <> 'opaque')
        AND (retry_at IS NULL OR retry_at <= clock_timestamp())
        AND (offered_at IS NULL OR offered_at < clock_timestamp() - %(backoff)s)
    ORDER BY created_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED),
to_probe AS (
    SELECT operation_id FROM signoff.effects WHERE probe_at <= clock_timestamp()
        AND (offered_at IS NULL OR offered_at < clock_timestamp() - %(backoff)s)
    ORDER BY probe_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE signoff.effects SET offered_at = clock_timestamp()
WHERE operation_id IN (SELECT operation_id FROM alone UNION SELECT operation_id FROM to_probe)
RETURNING agent, operation_id
"""


MORE_EDITS = 10


class EffectTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def job_of(self, operation_id: str) -> UUID | None:
        cursor = await self._conn.execute("SELECT job_id FROM signoff.effects WHERE operation_id = %s", (operation_id,))
        row = await cursor.fetchone()
        return None if row is None else row["job_id"]

    async def class_of(self, operation_id: str) -> EffectClass | None:
        """As its tool declared it when it was last sent; None if it never was, nor allowed by a rule."""
        cursor = await self._conn.execute("SELECT class FROM signoff.effects WHERE operation_id = %s", (operation_id,))
        row = await cursor.fetchone()
        return None if row is None or row["class"] is None else EffectClass(row["class"])

    async def lock(self, operation_id: str) -> Effect | None:
        cursor = await self._conn.execute(
            f"SELECT {COLUMNS} FROM signoff.effects e WHERE e.operation_id = %s FOR UPDATE", (operation_id,)
        )
        row = await cursor.fetchone()
        return None if row is None else effect_of(row)

    async def plan(
        self,
        job: Job,
        items: Sequence[Item],
        decisions: Sequence[Decision],
        origin: Origin | None = None,
        lineage_root: str | None = None,
    ) -> Sequence[str]:
        elsewhere = []
        for item, decision in zip(items, decisions, strict=True):
            parameters = {
                "operation_id": decision.operation_id,
                "job_id": job.id,
                "thread_id": job.thread_id,
                "agent": job.agent,
                "tool": decision.tool or item.tool,
                "args": Json(dict(decision.args or {})),
                "digest": decision.digest,
                "decision_id": decision.id,
                "hidden": list(item.terms.hidden) or None,
                "siblings": _siblings(lineage_root, item, decision),
                "origin": origin and origin.kind,
                "origin_operation": origin and origin.operation_id,
            }
            cursor = await self._conn.execute(PLAN, parameters)
            if cursor.rowcount == 0 and not await self._is_known(job, decision.operation_id, decision.digest):
                elsewhere.append(decision.operation_id)
        return elsewhere

    async def examine(self, operation_id: str) -> Examined | None:
        """The effect, locked, with what it stands on."""
        row = await (await self._conn.execute(EXAMINE, (operation_id,))).fetchone()
        return None if row is None else examined_of(row)

    async def newest_item(self, operation_id: str) -> AskedBefore | None:
        """What became of the call when a person was last asked about it; None if nobody ever was."""
        row = await (await self._conn.execute(NEWEST_ITEM, (operation_id,))).fetchone()
        return None if row is None else asked_before_of(row)

    async def allow(
        self,
        job: Job,
        effect: Effect,
        effect_class: EffectClass,
        judgement: Judgement,
        *,
        standing_id: UUID | None = None,
        by_time: bool = False,
    ) -> EffectStatus | None:
        """Plans an effect that the policy allows, or a standing approval, or time. None if the call has ever been an
        item of a review (`by_time` apart), or what one was amended to. It is in doubt instead of planned where the
        database is a backup that was restored: then it may have left in the time that was lost."""
        parameters = {
            "operation_id": effect.operation_id,
            "job_id": job.id,
            "thread_id": job.thread_id,
            "agent": job.agent,
            "tool": effect.tool,
            "args": Json(dict(effect.args)),
            "digest": effect.digest,
            "class": effect_class,
            "rule": judgement.rule,
            "policy_digest": judgement.policy_digest,
            "standing_id": standing_id,
            "hidden": list(judgement.hidden) or None,
            "by_time": by_time,
        }
        row = await (await self._conn.execute(ALLOW, parameters)).fetchone()
        return None if row is None else EffectStatus(row["status"])

    async def dispatch(
        self, effect: Effect, terms: Terms, *, fence: int, worker: str, lease_until: datetime | None = None
    ) -> Effect:
        """Marks the dispatch and opens the attempt; commit before the first byte leaves. Returns the effect as sent.

        Raises:
            LeaseLost: the effect is not where it can be sent from, or has just been paused.
        """
        parameters = {
            "operation_id": effect.operation_id,
            "digest": effect.digest,
            "fence": fence,
            "worker": worker,
            "class": terms.effect_class,
            "window": terms.window.total_seconds() if terms.window else None,
            "provider": terms.provider,
            "retention": terms.retention.total_seconds() if terms.retention is not None else None,
            "lease_until": lease_until,
            "sources": sources_of(EffectStatus.dispatched),
        }
        row = await (await self._conn.execute(DISPATCH, parameters)).fetchone()
        if row is None:
            raise LeaseLost(f"the effect {effect.operation_id} can't be dispatched from where it is")
        return replace(effect, status=EffectStatus.dispatched, retry_at=None, fence=fence, **row)

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
            "holds": step.holds,
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

    async def is_compensated_otherwise(self, operation_id: str) -> bool:
        cursor = await self._conn.execute(
            "SELECT FROM signoff.effects c JOIN signoff.effects o ON o.origin_operation = c.origin_operation"
            " AND o.origin = 'compensation' AND o.operation_id <> c.operation_id"
            " AND o.status NOT IN ('failed', 'revoked', 'cancelled')"
            " WHERE c.operation_id = %s AND c.origin = 'compensation' LIMIT 1",
            (operation_id,),
        )
        return await cursor.fetchone() is not None

    async def cancel_unsent(self, job_id: UUID, actor: str) -> None:
        cursor = await self._conn.execute(CANCEL_UNSENT, {"job": job_id, "actor": actor})
        for row in await cursor.fetchall():
            if row["to_status"] == EffectStatus.in_doubt:
                await self._tell_of_doubt(row["operation_id"], actor, "the job ended")

    async def _tell_of_doubt(self, operation_id: str, actor: str, reason: str) -> None:
        effect = await self.lock(operation_id)
        event = event_of(effect, EffectStatus.in_doubt, actor, reason) if effect is not None else None
        if event is not None:
            await EventTable(self._conn).append(event)

    async def revoke_unsent(self, operation_ids: Sequence[str], actor: str, reason: str) -> None:
        cursor = await self._conn.execute(
            f"SELECT {COLUMNS} FROM signoff.effects e WHERE e.operation_id = ANY(%s)"
            " AND e.status IN ('planned', 'retry_wait') ORDER BY e.operation_id FOR UPDATE",
            (list(operation_ids),),
        )
        for effect in [effect_of(row) for row in await cursor.fetchall()]:
            doubted = effect.doubt_since is not None
            to = EffectStatus.in_doubt if doubted else EffectStatus.revoked
            event = event_of(effect, to, actor, reason)
            await self.move(
                effect, Step(to, doubt=doubted, reason=reason), actor=actor, error=(str(to), reason), event=event
            )

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
        """(agent, operation id) of effects that run by themselves, or whose provider is to be asked, and are due; they
        count as offered now.

        Those in doubt too, where the tool may have a way out, until `leave_to_operator`.
        """
        cursor = await self._conn.execute(TAKE_ALONE, {"backoff": backoff, "limit": limit})
        return [(row["agent"], row["operation_id"]) for row in await cursor.fetchall()]

    async def leave_to_operator(self, operation_id: str) -> None:
        """Offers the effect no more until it has moved."""
        await self._conn.execute(
            "UPDATE signoff.effects SET awaits_operator = true, retry_at = NULL, waits_for = NULL, probe_at = NULL"
            " WHERE operation_id = %s",
            (operation_id,),
        )

    async def is_unanswered(self, effect: Effect) -> bool:
        """True if nothing was recorded of its newest attempt: the worker was lost."""
        cursor = await self._conn.execute(
            "SELECT FROM signoff.attempts WHERE operation_id = %s AND number = %s AND outcome IS NULL",
            (effect.operation_id, effect.attempts),
        )
        return await cursor.fetchone() is not None

    async def recorded(self, sent: Effect, outcome: Outcome) -> Effect | None:
        """The effect as it is, if `outcome` is what was recorded of exactly this try under its fence."""
        cursor = await self._conn.execute(
            f"SELECT {COLUMNS} FROM signoff.effects e JOIN signoff.attempts a ON a.operation_id = e.operation_id"
            " AND a.number = e.attempts WHERE e.operation_id = %s AND e.fence = %s AND e.attempts = %s"
            " AND a.outcome = %s",
            (sent.operation_id, sent.fence, sent.attempts, outcome),
        )
        row = await cursor.fetchone()
        return None if row is None else effect_of(row)

    async def wait(self, effect: Effect, until: datetime, waits_for: str) -> Effect:
        """Leaves the effect where it is until then, and says what it waits for. It is locked."""
        await self._conn.execute(
            "UPDATE signoff.effects SET retry_at = %s, waits_for = %s, probe_at = CASE WHEN probe_at IS NOT NULL"
            " THEN %s::timestamptz END, offered_at = NULL WHERE operation_id = %s",
            (until, waits_for, until, effect.operation_id),
        )
        return replace(effect, retry_at=until)

    async def note_change(self, effect: Effect, message: str) -> None:
        """Remembers what had changed when the effect went back to review, and on which decision it stood."""
        await self._conn.execute(
            "UPDATE signoff.effects SET changed = %s, changed_decision = decision_id WHERE operation_id = %s",
            (message, effect.operation_id),
        )

    async def _is_known(self, job: Job, operation_id: str, digest: str) -> bool:
        """False if another job of the lineage carries the call out in another form. Raises DigestMismatch."""
        effect = await self.lock(operation_id)
        if effect is None or (effect.digest != digest and effect.job_id != job.id):
            return False
        if effect.digest != digest:
            raise DigestMismatch(f"the operation {operation_id} exists with another call")
        return True


def _siblings(lineage_root: str | None, item: Item, decision: Decision) -> list[str]:
    """The operations of the same call with other edits, which forks may have made of it."""
    if lineage_root is None:
        return []
    made = range(max(item.edits, decision.edits) + MORE_EDITS)
    found = (operation_id(lineage_root, item.message_id, item.call_ordinal, edits) for edits in made)
    return [operation for operation in found if operation != decision.operation_id]
