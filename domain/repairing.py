"""Repairing the thread of a job that every run of fails on: at its head it is asked again.

What has poisoned it is stored beside the head: an answer that a node can't read, or one that it fails on each time.
The head is put anew without any of that. Effects keep their operation ids: what was done is served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import JobNotFound, JobNotRepairable
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.operator_acts import Done, OperatorAct, once
from signoff.domain.ports import Hints, Store, Transaction
from signoff.domain.retrying import queued_or_waiting

# Not a queued one: a claim that waits for its row would go on from the old head.
REPAIRABLE = frozenset({JobStatus.awaiting_review, JobStatus.awaiting_operator, JobStatus.failed})


async def repair_job(
    store: Store, hints: Hints, job_id: UUID, who: Principal, reason: str, request_id: str | None = None
) -> Done:
    """Asks again, at the job's newest checkpoint, what was asked there; its open reviews are superseded.

    The outcome has the job's `status`, `old_checkpoint_id`, `checkpoint_id` and the `superseded` reviews.

    Raises: RightMissing, JobNotFound, JobNotRepairable (it runs or is about to, has ended otherwise than by a failure,
    or the thread's head is not its own), InvalidRequest (no reason), IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    act = OperatorAct(who, "job.repair", str(job_id), reason, request_id, {}, job_id)

    async def do() -> Mapping[str, Any]:
        return await _repair(tx, job_id, who.name)

    async with store.begin() as tx:
        job = await tx.jobs.get(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id}")
        done = await once(tx, act, do)
    hints.offer(job.agent, job_id)
    return done


async def _repair(tx: Transaction, job_id: UUID, actor: str) -> Mapping[str, Any]:
    job = await tx.jobs.lock(job_id)
    assert job is not None
    if job.status not in REPAIRABLE:
        raise JobNotRepairable(f"the job is {job.status}: there is nothing to repair", status=str(job.status))
    to = await queued_or_waiting(tx, job)
    heads = await tx.forks.renew_head(job) if to is JobStatus.queued else None
    if heads is None:
        raise JobNotRepairable("the thread does not stand at a checkpoint of this job: retry it instead")
    superseded = await tx.forks.supersede_reviews(job_id)
    changed = {"old_checkpoint_id": heads[0], "checkpoint_id": heads[1], "superseded": [str(i) for i in superseded]}
    await _queue(tx, job, actor, superseded, changed)
    return {"job_id": str(job_id), "status": str(JobStatus.queued), **changed}


async def _queue(tx: Transaction, job: Job, actor: str, superseded: Sequence[UUID], changed: Mapping[str, Any]) -> None:
    data = {"job_id": str(job.id), "thread_id": job.thread_id}
    await tx.events.append(
        *(
            NewEvent(EventType.review_superseded, f"reviews/{id_}", actor, {**data, "review_id": str(id_)}, job.id)
            for id_ in superseded
        )
    )
    event = NewEvent(EventType.job_repaired, f"jobs/{job.id}", actor, {**data, **changed}, job.id)
    await tx.jobs.move(job.id, JobStatus.queued, event=event)
