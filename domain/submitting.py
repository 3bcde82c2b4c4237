"""Accepting a job: the one use case behind every door."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.cancelling import cancel_locked
from signoff.domain.errors import (
    AgentMismatch,
    AgentNotFound,
    Conflict,
    IdempotencyInProgress,
    IdempotencyMismatch,
    ReviewPending,
    ThreadNotFound,
)
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import Job, JobStatus, SubmitJob
from signoff.domain.ports import Hints, Store, Transaction

MOST_RACES = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """The job, and whether this request created it or an earlier one with the same idempotency key did."""

    job: Job
    created: bool


async def submit_job(store: Store, hints: Hints, command: SubmitJob, who: Principal, door: str) -> Accepted:
    """Accepts a job: once this returns, the job is never lost.

    Raises:
        RightMissing, AgentNotFound, ThreadNotFound, AgentMismatch, IdempotencyMismatch, IdempotencyInProgress,
        ReviewPending (the thread waits for a review and `cancel_pending` was not asked).
    """
    require_right(who, Right.submit)
    for _ in range(MOST_RACES):
        async with store.begin() as tx:
            accepted = await _accept(tx, command, who, door)
        if accepted is not None:
            if accepted.created and accepted.job.status is JobStatus.queued:
                hints.offer(accepted.job.agent, accepted.job.id)
            return accepted
    raise Conflict("the thread changed under the request again and again; send it once more")


async def _accept(tx: Transaction, command: SubmitJob, who: Principal, door: str) -> Accepted | None:
    """None if another transaction won a race and the caller should look again."""
    known = await _known(tx, command, who)
    if known is not None:
        return Accepted(known, created=False)
    if not await tx.agents.exists(command.agent):
        raise AgentNotFound(f"no worker has ever served an agent {command.agent!r}", agent=command.agent)
    thread_id = await _thread(tx, command, who)
    status = await _first_status(tx, command, thread_id, who) if command.thread_id else JobStatus.queued
    job_id = uuid4()
    job = await tx.jobs.insert(job_id, command, thread_id, status, who.name, door)
    if job is None:
        return None
    data = {
        "job_id": str(job_id),
        "thread_id": thread_id,
        "agent": command.agent,
        "status": str(status),
        "door": door,
        "idempotency_key": command.idempotency_key,
    }
    await tx.events.append(NewEvent(EventType.job_accepted, f"jobs/{job_id}", who.name, data, job_id))
    return Accepted(job, created=True)


async def _known(tx: Transaction, command: SubmitJob, who: Principal) -> Job | None:
    key = command.idempotency_key
    if key is None:
        return None
    if not await tx.jobs.hold_key(who.name, key):
        raise IdempotencyInProgress("a request with this idempotency key is being handled right now")
    job = await tx.jobs.by_key(who.name, key)
    if job is not None and job.request_digest != command.digest():
        raise IdempotencyMismatch("this idempotency key was used with another request", job_id=str(job.id))
    return job


async def _thread(tx: Transaction, command: SubmitJob, who: Principal) -> str:
    if command.thread_id is None:
        thread_id = str(uuid4())
        await tx.threads.create(thread_id, command.agent, who.name)
        return thread_id
    if await tx.threads.create(command.thread_id, command.agent, who.name):
        return command.thread_id
    owner = await tx.threads.owner(command.thread_id)
    assert owner is not None
    agent, created_by = owner
    if created_by != who.name and Right.operate not in who.rights:
        raise ThreadNotFound(f"there is no thread {command.thread_id!r} of yours")
    if agent != command.agent:
        raise AgentMismatch(f"the thread belongs to the agent {agent!r}, not {command.agent!r}", agent=agent)
    return command.thread_id


async def _first_status(tx: Transaction, command: SubmitJob, thread_id: str, who: Principal) -> JobStatus:
    started = await tx.jobs.lock_started(thread_id)
    if started is None:
        return JobStatus.queued
    if not await tx.reviews.is_pending(started.id):
        return JobStatus.waiting
    if not command.cancel_pending:
        raise ReviewPending(
            f"job {started.id} of this thread waits for a review; decide it, or send cancel_pending",
            job_id=str(started.id),
            thread_id=thread_id,
        )
    if started.status is JobStatus.running:
        await tx.jobs.request_cancel(started.id, who.name)
        return JobStatus.waiting
    await cancel_locked(tx, started, who.name, promote=False)
    return JobStatus.queued
