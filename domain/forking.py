"""Forking a job: the same request, from an earlier checkpoint, on a thread of its own.

The ledger is inherited: operation ids come from the lineage's root. What was done is served and never done again, and
an effect of another job is never sent from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import CheckpointNotFound, JobNotFound, ReviewPending
from signoff.domain.events import EventType, NewEvent
from signoff.domain.fork_points import KeptDecisions, NewThread
from signoff.domain.jobs import Job, JobStatus, SubmitJob
from signoff.domain.operator_acts import Done, OperatorAct, once
from signoff.domain.ports import Hints, Store, Transaction

DOOR = "fork"


async def fork_job(
    store: Store,
    hints: Hints,
    job_id: UUID,
    who: Principal,
    reason: str,
    *,
    checkpoint_id: str | None = None,
    decisions: KeptDecisions = KeptDecisions.ask,
    request_id: str | None = None,
) -> Done:
    """A new job that goes on from a kept checkpoint of this one; without an id from the newest that it was parked at.

    With `decisions=keep` what was decided then is not asked again; otherwise only what the ledger knows of is not.
    The outcome has the new `job_id`, its `thread_id` and the `checkpoint_id`.

    Raises: RightMissing, JobNotFound, CheckpointNotFound, ReviewPending (a review of that pause is still open),
    InvalidRequest (no reason), IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    body = {"checkpoint_id": checkpoint_id, "decisions": str(decisions)}
    act = OperatorAct(who, "job.fork", str(job_id), reason, request_id, body, job_id)

    async def do() -> Mapping[str, Any]:
        return await _fork(tx, job_id, who, checkpoint_id, decisions)

    async with store.begin() as tx:
        job = await tx.jobs.get(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id}")
        done = await once(tx, act, do)
    hints.offer(job.agent, UUID(done.outcome["job_id"]))
    return done


async def _fork(
    tx: Transaction, job_id: UUID, who: Principal, wanted: str | None, decisions: KeptDecisions
) -> Mapping[str, Any]:
    job = await _locked(tx, job_id)
    checkpoint_id = await _checkpoint(tx, job, wanted)
    new = NewThread(str(uuid4()), checkpoint_id, uuid4(), decisions)
    await tx.forks.begin(job, new)
    command = SubmitJob(job.agent, job.input, thread_id=new.id, labels=job.labels)
    made = await tx.jobs.insert(new.job_id, command, new.id, JobStatus.queued, job.submitted_by, DOOR)
    assert made is not None
    outcome = {"job_id": str(new.job_id), "thread_id": new.id, "checkpoint_id": checkpoint_id}
    await tx.events.append(*_events(job, new, who.name))
    return outcome


async def _locked(tx: Transaction, job_id: UUID) -> Job:
    """The job, with whatever runs on its thread: nobody writes checkpoints of it now."""
    job = await tx.jobs.lock(job_id)
    assert job is not None
    await tx.jobs.lock_started(job.thread_id)
    return job


async def _checkpoint(tx: Transaction, job: Job, wanted: str | None) -> str:
    checkpoint_id = wanted or await tx.forks.newest_park(job)
    if checkpoint_id is None:
        raise CheckpointNotFound("the job was never parked: name one of its checkpoints, if it has any")
    if not await tx.forks.is_kept(job, checkpoint_id):
        raise CheckpointNotFound(f"the job has no checkpoint {checkpoint_id}")
    if review_id := await tx.forks.pending_review(job, checkpoint_id):
        raise ReviewPending(
            f"review {review_id} of this pause is open: decide it, or cancel the job, before you fork it here",
            job_id=str(job.id),
            review_id=str(review_id),
        )
    return checkpoint_id


def _events(job: Job, new: NewThread, actor: str) -> list[NewEvent]:
    data = {"job_id": str(new.job_id), "thread_id": new.id, "agent": job.agent}
    accepted = {**data, "status": str(JobStatus.queued), "door": DOOR, "idempotency_key": None}
    source = {"forked_from": str(job.id), "checkpoint_id": new.checkpoint_id, "decisions": str(new.decisions)}
    subject = f"jobs/{new.job_id}"
    return [
        NewEvent(EventType.job_accepted, subject, actor, accepted, new.job_id),
        NewEvent(EventType.job_forked, subject, actor, {**data, **source}, new.job_id),
    ]
