"""Calls that have an answer from before: in a fork, and where a thread was repaired.

Nobody is asked about a call that the ledger knows of: it may have been done, whatever is decided now. Its item from
before says how the graph goes on, and the executor serves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from signoff.domain import running
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.pauses import Pause, ReviewPause
from signoff.domain.reviews import Item, Review
from signoff.infra.postgres.store import PostgresTransaction


async def carried_over(
    tx: PostgresTransaction, job: Job, pauses: Sequence[Pause], reviews: Mapping[str, Review]
) -> Mapping[str, Item]:
    """By the operation that was asked for; nothing is looked up where each call has its item in the pause's review.

    `reviews`, by interrupt, are the job's. By the interrupt of another head nothing of this one was asked.
    """
    current = [reviews[pause.interrupt_id] for pause in pauses if pause.interrupt_id in reviews]
    own = {item.asked_operation_id for review in current for item in review.items}
    asked = [operation for pause in pauses for operation in _operations(pause) if operation not in own]
    if not asked:
        return {}
    found = await tx.forks.carried_over(job, asked)
    return {item.asked_operation_id: item for item in reversed(found)}


def _operations(pause: Pause) -> Sequence[str]:
    """Those that were asked about for the first time. What goes back to review has its effect, and is asked again."""
    if not isinstance(pause, ReviewPause) or pause.again is not None:
        return ()
    return [item["operation_id"] for item in pause.items]


async def park(tx: PostgresTransaction, job: Job, pauses: Sequence[Pause], checkpoint_id: str) -> None:
    """Parks the job at what is left to ask; if a pause has all its answers from before, it is queued at once."""
    reviews = {review.interrupt_id: review for review in await tx.reviews.of_job(job.id)}
    known = await carried_over(tx, job, pauses, reviews)
    left = [_without(pause, known) for pause in pauses]
    answered = any(pause is None for pause in left)
    asked = [pause for pause in left if pause is not None]
    if asked or not answered:
        await running.park(tx, job, asked, checkpoint_id)
    if answered:
        await tx.jobs.move(job.id, JobStatus.queued)


def _without(pause: Pause, known: Mapping[str, Item]) -> Pause | None:
    """The pause as far as people are to be asked; None if nothing is left of it."""
    if not isinstance(pause, ReviewPause) or not known or pause.again is not None:
        return pause
    left = tuple(item for item in pause.items if item["operation_id"] not in known)
    return replace(pause, items=left) if left else None
