"""Cancelling a job. Cancel wins until the dispatch mark; what was dispatched is still recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, Right, may_read_job
from signoff.domain.errors import DeadLetterSettled, JobEnded, JobNotFound
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import ENDED, Job, JobStatus
from signoff.domain.operator_acts import OperatorAct, once
from signoff.domain.ports import Hints, Store, Transaction


async def cancel_job(
    store: Store,
    hints: Hints,
    job_id: UUID,
    who: Principal,
    reason: str | None = None,
    request_id: str | None = None,
    *,
    held_only: bool = False,
) -> Job:
    """Cancels an unfinished job; of a running one the cancellation is requested, and no new effect is dispatched.

    Who submitted it needs no reason. Anybody else does it as an operator: with a reason, and once for a request id.

    Raises:
        JobNotFound: no such job that `who` submitted or operates.
        JobEnded: it has succeeded or failed. (Cancelling a cancelled job again changes nothing.)
        InvalidRequest, IdempotencyMismatch: as an operator.
        DeadLetterSettled: it does not wait for an operator any more, and `held_only` wants that.
    """
    promoted: list[UUID] = []

    async def do() -> Mapping[str, Any]:
        after, next_job = await _cancel(tx, job_id, who, held_only)
        promoted.extend(next_job)
        return {"status": str(after.status)}

    async with store.begin() as tx:
        job = await tx.jobs.get(job_id)
        if job is None or not may_read_job(who, job.submitted_by, ()):
            raise JobNotFound(f"there is no job {job_id} of yours")
        if _is_an_operators(who, job, reason):
            await once(tx, OperatorAct(who, "job.cancel", str(job_id), reason or "", request_id, {}, job_id), do)
        else:
            await do()
        after = await tx.jobs.get(job_id)
    for next_job in promoted:
        hints.offer(job.agent, next_job)
    assert after is not None
    return after


def _is_an_operators(who: Principal, job: Job, reason: str | None) -> bool:
    """True for an act that goes into the record: of an operator, on a job of somebody else's or with a reason."""
    return Right.operate in who.rights and (who.name != job.submitted_by or reason is not None)


async def _cancel(tx: Transaction, job_id: UUID, who: Principal, held_only: bool) -> tuple[Job, list[UUID]]:
    """The job as it is then, and the thread's next, if that may start now."""
    promoted: UUID | None = None
    job = await tx.jobs.lock(job_id)
    assert job is not None
    if held_only and job.status is not JobStatus.awaiting_operator:
        raise DeadLetterSettled(f"the job is {job.status}: it does not wait for an operator any more")
    if job.status in ENDED and job.status is not JobStatus.cancelled:
        raise JobEnded(f"the job has {job.status} already", status=str(job.status))
    if job.status is JobStatus.running:
        await tx.jobs.request_cancel(job_id, who.name)
    elif job.status is not JobStatus.cancelled:
        promoted = await cancel_locked(tx, job, who.name)
    after = await tx.jobs.get(job_id)
    assert after is not None
    return after, [] if promoted is None else [promoted]


async def cancel_locked(tx: Transaction, job: Job, actor: str, *, promote: bool = True) -> UUID | None:
    """Ends a job whose row is locked: its reviews and unsent effects with it. Returns the thread's next job, if any."""
    cancelled = await tx.reviews.cancel_of_job(job.id)
    await tx.effects.cancel_unsent(job.id, actor)
    data = {"job_id": str(job.id), "thread_id": job.thread_id}
    events = [
        NewEvent(EventType.review_cancelled, f"reviews/{id_}", actor, {**data, "review_id": str(id_)}, job.id)
        for id_ in cancelled
    ]
    await tx.events.append(*events)
    event = NewEvent(EventType.job_cancelled, f"jobs/{job.id}", actor, data, job.id)
    await tx.jobs.move(job.id, JobStatus.cancelled, error=("cancelled", f"cancelled by {actor}"), event=event)
    return await tx.jobs.promote_waiting(job.thread_id) if promote else None
