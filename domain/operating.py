"""What an operator may do to an effect or a job that needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.effects import Effect, EffectStatus, Step
from signoff.domain.errors import (
    Conflict,
    EffectNotFound,
    EffectNotInDoubt,
    EffectNotReplayable,
    InvalidRequest,
    JobNotFailed,
    JobNotFound,
)
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import ENDED, Job, JobStatus
from signoff.domain.ports import Hints, Store, Transaction


class Finding(StrEnum):
    """What an operator found out about an effect in doubt."""

    applied = "applied"
    not_applied = "not_applied"


@dataclass(frozen=True, slots=True)
class Settlement:
    """Who settles, why, and the provider's reference if it has one."""

    who: Principal
    reason: str
    reference: str | None = None


async def resolve_effect(
    store: Store,
    hints: Hints,
    operation_id: str,
    finding: Finding,
    settlement: Settlement,
    result: tuple[str, bytes] | None,
) -> Effect:
    """Settles doubt: `applied` ends it as succeeded with `result`; `not_applied` lets it be sent again, or ends it as
    cancelled if its job has ended.

    Raises: RightMissing, EffectNotFound, EffectNotInDoubt, InvalidRequest (no reason, or applied without a reference).
    """
    if finding is Finding.applied and not settlement.reference:
        raise InvalidRequest("'applied' needs the provider's reference")
    to = EffectStatus.succeeded if finding is Finding.applied else EffectStatus.retry_wait
    step = Step(to, doubt=False, reason=settlement.reason)
    error = EffectNotInDoubt
    return await _settle(store, hints, operation_id, (EffectStatus.in_doubt,), step, settlement, error, result)


async def skip_effect(
    store: Store, hints: Hints, operation_id: str, settlement: Settlement, substitute: tuple[str, bytes]
) -> Effect:
    """Ends an effect that is in doubt, failed or dead with a substitute, which the agent sees labelled as such.

    Raises: RightMissing, EffectNotFound, EffectNotReplayable, InvalidRequest (no reason).
    """
    sources = (EffectStatus.in_doubt, EffectStatus.failed, EffectStatus.dead)
    step = Step(EffectStatus.skipped, doubt=False, reason=settlement.reason)
    return await _settle(store, hints, operation_id, sources, step, settlement, EffectNotReplayable, substitute)


async def replay_effect(store: Store, hints: Hints, operation_id: str, settlement: Settlement) -> Effect:
    """Plans a failed or dead effect again, under a new generation if it failed for certain.

    Raises: RightMissing, EffectNotFound, InvalidRequest, EffectNotReplayable (it succeeded, is under way or in doubt).
    """
    sources = (EffectStatus.failed, EffectStatus.dead)
    step = Step(EffectStatus.planned, doubt=False, reason=settlement.reason)
    return await _settle(store, hints, operation_id, sources, step, settlement, EffectNotReplayable, None)


async def retry_job(store: Store, hints: Hints, job_id: UUID, who: Principal) -> Job:
    """Queues a failed job, or one that waits for an operator, from its newest checkpoint.

    Raises: RightMissing, JobNotFound, JobNotFailed; Conflict if the thread changed again and again.
    """
    require_right(who, Right.operate)
    try:
        job = await _retry(store, job_id, who)
    except JobNotFailed:
        raise
    except Conflict:
        # Another job of the thread has started meanwhile: this one waits behind it.
        job = await _retry(store, job_id, who)
    hints.offer(job.agent, job_id)
    return job


async def _retry(store: Store, job_id: UUID, who: Principal) -> Job:
    async with store.begin() as tx:
        job = await tx.jobs.lock(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id}")
        if job.status not in (JobStatus.failed, JobStatus.awaiting_operator):
            raise JobNotFailed(f"the job is {job.status}: there is nothing to retry", status=str(job.status))
        to = await _retry_target(tx, job)
        data = {"job_id": str(job_id), "thread_id": job.thread_id}
        event = NewEvent(EventType.job_retried, f"jobs/{job_id}", who.name, data, job_id)
        await tx.jobs.move(job_id, to, event=event)
        after = await tx.jobs.get(job_id)
    assert after is not None
    return after


async def _retry_target(tx: Transaction, job: Job) -> JobStatus:
    if job.status is JobStatus.awaiting_operator:
        return JobStatus.queued
    return JobStatus.waiting if await tx.jobs.lock_started(job.thread_id) else JobStatus.queued


async def _settle(
    store: Store,
    hints: Hints,
    operation_id: str,
    sources: Sequence[EffectStatus],
    step: Step,
    settlement: Settlement,
    refusal: type[EffectNotInDoubt | EffectNotReplayable],
    result: tuple[str, bytes] | None,
) -> Effect:
    require_right(settlement.who, Right.operate)
    if not settlement.reason.strip():
        raise InvalidRequest("a reason is needed: it stays in the effect's history")
    async with store.begin() as tx:
        effect, job = await _lock(tx, operation_id)
        if effect.status not in sources:
            words = " or ".join(sources)
            raise refusal(f"the effect is {effect.status}; this needs it {words}", status=str(effect.status))
        raised = step.to is EffectStatus.planned and effect.status is EffectStatus.failed
        await tx.effects.move(
            effect,
            step,
            actor=settlement.who.name,
            reference=settlement.reference,
            result=result,
            new_generation=raised,
            # Its job was told already, or has ended: history stays as it was, and the effect runs by itself.
            alone=step.to is EffectStatus.planned and (job.status in ENDED or effect.status is EffectStatus.failed),
        )
        if job.status is JobStatus.awaiting_operator:
            await tx.jobs.move(job.id, JobStatus.queued)
        elif job.status in ENDED:
            # Nothing that a finding lets go is sent for a job that has ended, unless it was replayed since.
            await tx.effects.cancel_unsent(job.id, settlement.who.name)
        after = await tx.effects.lock(operation_id)
        assert after is not None
        await _tell(tx, effect, after.status, settlement)
    hints.offer(job.agent, job.id)
    return after


async def _lock(tx: Transaction, operation_id: str) -> tuple[Effect, Job]:
    job_id = await tx.effects.job_of(operation_id)
    job = await tx.jobs.lock(job_id) if job_id else None
    effect = await tx.effects.lock(operation_id)
    if effect is None or job is None:
        raise EffectNotFound(f"there is no effect {operation_id}")
    return effect, job


async def _tell(tx: Transaction, effect: Effect, to: EffectStatus, settlement: Settlement) -> None:
    data = {
        "operation_id": effect.operation_id,
        "job_id": str(effect.job_id),
        "tool": effect.tool,
        "from": str(effect.status),
        "to": str(to),
        "reason": settlement.reason,
        "reference": settlement.reference,
    }
    subject = f"effects/{effect.operation_id}"
    await tx.events.append(NewEvent(EventType.effect_settled, subject, settlement.who.name, data, effect.job_id))
