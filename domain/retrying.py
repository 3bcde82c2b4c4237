"""Retrying a job: it goes on from its newest checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import Conflict, JobNotFailed, JobNotFound
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.operator_acts import OperatorAct, once
from signoff.domain.ports import Hints, Store, Transaction


async def retry_job(
    store: Store, hints: Hints, job_id: UUID, who: Principal, reason: str, request_id: str | None = None
) -> Job:
    """Queues a failed job, or one that waits for an operator, from its newest checkpoint.

    Raises: RightMissing, JobNotFound, JobNotFailed, InvalidRequest (no reason), IdempotencyMismatch; Conflict if the
    thread changed again and again.
    """
    require_right(who, Right.operate)
    act = OperatorAct(who, "job.retry", str(job_id), reason, request_id, {}, job_id)
    try:
        job = await _retry(store, job_id, act)
    except JobNotFailed:
        raise
    except Conflict:
        # Another job of the thread has started meanwhile: this one waits behind it.
        job = await _retry(store, job_id, act)
    hints.offer(job.agent, job_id)
    return job


async def _retry(store: Store, job_id: UUID, act: OperatorAct) -> Job:
    async def do() -> Mapping[str, Any]:
        job = await tx.jobs.lock(job_id)
        assert job is not None
        return {"status": str(await queue_again(tx, job, act.who.name))}

    async with store.begin() as tx:
        if await tx.jobs.get(job_id) is None:
            raise JobNotFound(f"there is no job {job_id}")
        await once(tx, act, do)
        after = await tx.jobs.get(job_id)
    assert after is not None
    return after


async def queue_again(tx: Transaction, job: Job, actor: str) -> JobStatus:
    """Queues a locked job that has failed or waits for an operator, and tells of it. Raises JobNotFailed."""
    if job.status not in (JobStatus.failed, JobStatus.awaiting_operator):
        raise JobNotFailed(f"the job is {job.status}: there is nothing to retry", status=str(job.status))
    to = await queued_or_waiting(tx, job)
    data = {"job_id": str(job.id), "thread_id": job.thread_id}
    event = NewEvent(EventType.job_retried, f"jobs/{job.id}", actor, data, job.id)
    await tx.jobs.move(job.id, to, event=event)
    return to


async def queued_or_waiting(tx: Transaction, job: Job) -> JobStatus:
    """Where a locked job that is to run again goes: behind another of its thread, if that has started."""
    if job.status is not JobStatus.failed:
        return JobStatus.queued
    return JobStatus.waiting if await tx.jobs.lock_started(job.thread_id) else JobStatus.queued


async def wake_job(store: Store, hints: Hints, job_id: UUID) -> None:
    """Queues a job that was held at an effect which is settled by now, unless it has gone on already."""
    async with store.begin() as tx:
        job = await tx.jobs.lock(job_id)
        if job is None or job.status is not JobStatus.awaiting_operator:
            return
        await queue_again(tx, job, "signoff")
    hints.offer(job.agent, job_id)
