"""Cancelling a job. Cancel wins until the dispatch mark; what was dispatched is still recorded."""

from __future__ import annotations

from uuid import UUID

from signoff.domain.authority import Principal, may_read_job
from signoff.domain.errors import JobEnded, JobNotFound
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import ENDED, Job, JobStatus
from signoff.domain.ports import Hints, Store, Transaction


async def cancel_job(store: Store, hints: Hints, job_id: UUID, who: Principal) -> Job:
    """Cancels an unfinished job; of a running one the cancellation is requested, and no new effect is dispatched.

    Raises:
        JobNotFound: no such job that `who` submitted or operates.
        JobEnded: it has succeeded or failed. (Cancelling a cancelled job again changes nothing.)
    """
    promoted: UUID | None = None
    async with store.begin() as tx:
        job = await tx.jobs.lock(job_id)
        if job is None or not may_read_job(who, job.submitted_by, ()):
            raise JobNotFound(f"there is no job {job_id} of yours")
        if job.status in ENDED and job.status is not JobStatus.cancelled:
            raise JobEnded(f"the job has {job.status} already", status=str(job.status))
        if job.status is JobStatus.running:
            await tx.jobs.request_cancel(job_id, who.name)
        elif job.status is not JobStatus.cancelled:
            promoted = await cancel_locked(tx, job, who.name)
        after = await tx.jobs.get(job_id)
    if promoted is not None:
        hints.offer(job.agent, promoted)
    assert after is not None
    return after


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
