"""How a run leaves a job: parked, finished, failed, released. Each is called with the job's row locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.cancelling import cancel_locked
from signoff.domain.effects import EffectStatus
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.pauses import HoldPause, Pause, ReviewPause, WaitPause
from signoff.domain.policy import DecisionType
from signoff.domain.ports import NewReview, Transaction
from signoff.domain.review_requests import requested
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import Item, ItemStatus
from signoff.domain.verdicts import AtDeadline

ACTOR = "signoff"


async def park(tx: Transaction, job: Job, pauses: Sequence[Pause], checkpoint_id: str) -> JobStatus:
    """Leaves the job at its pauses: creates the reviews that are new, and names what the job waits for.

    The job is queued straight away if one of its pauses is answered already.
    """
    reviews = [pause for pause in pauses if isinstance(pause, ReviewPause)]
    requested = [await _request(tx, job, pause, checkpoint_id) for pause in reviews]
    known = [pause for event, pause in zip(requested, reviews, strict=True) if event is None]
    answered = [await tx.reviews.is_answered(job.thread_id, pause.interrupt_id) for pause in known]
    holds = [await _is_held(tx, pause) for pause in pauses if isinstance(pause, HoldPause)]
    waits = [await _due_at(tx, job, pause) for pause in pauses if isinstance(pause, WaitPause)]
    events = [event for event in requested if event is not None]
    await tx.events.append(*events[1:])
    event = events[0] if events else None
    if any(answered) or not all(holds) or waits:
        at_once = any(answered) or not all(holds)
        await tx.jobs.move(job.id, JobStatus.queued, run_at=None if at_once else min(waits), event=event)
        return JobStatus.queued
    if reviews:
        await tx.jobs.move(job.id, JobStatus.awaiting_review, event=event)
        return JobStatus.awaiting_review
    operations = [pause.operation_id for pause in pauses if isinstance(pause, HoldPause)]
    await hold(tx, job, "effect_held", f"settle the effect {', '.join(operations)}", operations=operations)
    return JobStatus.awaiting_operator


async def hold(tx: Transaction, job: Job, code: str, message: str, **facts: Any) -> None:
    """Parks the job for an operator, with the reason."""
    event = _event(job, EventType.job_held, {"code": code, "message": message, **facts})
    await tx.jobs.move(job.id, JobStatus.awaiting_operator, error=(code, message), event=event)


async def finish(tx: Transaction, job: Job, result: Mapping[str, Any]) -> UUID | None:
    """Ends the job well; what was planned and never left is cancelled. Returns the thread's next job, if one waited."""
    event = _event(job, EventType.job_succeeded, {"result": result})
    await tx.jobs.move(job.id, JobStatus.succeeded, result=result, event=event)
    await tx.effects.cancel_unsent(job.id, ACTOR)
    return await tx.jobs.promote_waiting(job.thread_id)


async def fail(tx: Transaction, job: Job, code: str, message: str) -> UUID | None:
    """Ends the job as failed. Returns the thread's next job, if one waited."""
    await tx.effects.cancel_unsent(job.id, ACTOR)
    await tx.reviews.cancel_of_job(job.id)
    event = _event(job, EventType.job_failed, {"code": code, "message": message})
    await tx.jobs.move(job.id, JobStatus.failed, error=(code, message), event=event)
    return await tx.jobs.promote_waiting(job.thread_id)


async def release(tx: Transaction, job: Job, *, run_in: timedelta, error: tuple[str, str] | None = None) -> None:
    """Gives the job back to be run again; its tries stay counted."""
    await tx.jobs.move(job.id, JobStatus.queued, run_in=run_in, keep_tries=True, error=error)


async def cancel(tx: Transaction, job: Job) -> UUID | None:
    """Ends a running job whose cancellation was requested."""
    return await cancel_locked(tx, job, job.cancel_requested_by or ACTOR)


async def _request(tx: Transaction, job: Job, pause: ReviewPause, checkpoint_id: str) -> NewEvent | None:
    """The event of a new review; None if the pause has its review already."""
    items = [_item(ordinal, raw) for ordinal, raw in enumerate(pause.items)]
    deadlines = [_deadline(item, raw) for item, raw in zip(items, pause.items, strict=True)]
    new = NewReview(uuid4(), pause.interrupt_id, checkpoint_id, pause.policy_digest, items, deadlines)
    deadline_at = await tx.reviews.create(job, new)
    if not (deadline_at is None or isinstance(deadline_at, datetime)):
        return None
    return requested(job, new, deadline_at, ACTOR)


def _item(ordinal: int, raw: Mapping[str, Any]) -> Item:
    return Item(
        id=uuid4(),
        ordinal=ordinal,
        status=ItemStatus.open,
        operation_id=raw["operation_id"],
        message_id=raw["message_id"],
        call_ordinal=raw["ordinal"],
        edits=raw["edits"],
        tool_call_id=raw["tool_call_id"],
        tool=raw["tool"],
        args=raw["args"],
        unreadable_args=raw["unreadable_args"],
        digest=raw["digest"],
        description=raw["description"],
        rule=raw["rule"],
        reason=raw["reason"],
        allowed_decisions=tuple(DecisionType(word) for word in raw["decisions"]),
        reviewers=tuple(raw["reviewers"]),
        args_schema=raw["args_schema"],
        deadline_at=None,
        approval_valid_for_seconds=raw["approval_valid_for_seconds"],
        terms=ReviewTerms.from_dict(raw.get("terms")).with_last_rung(raw["deadline_seconds"]),
        shown=raw.get("shown"),
        asked_operation_id=raw["operation_id"],
    )


def _deadline(item: Item, raw: Mapping[str, Any]) -> float | None:
    """None also where the last deadline is a rung of the ladder: then others are asked, and nothing expires."""
    seconds: float | None = raw["deadline_seconds"]
    return None if item.terms.at_deadline is AtDeadline.escalate else seconds


async def _due_at(tx: Transaction, job: Job, pause: WaitPause) -> datetime:
    """What the effect waited for may have come to an end while its run was still on the way to its park. Where it is
    under way elsewhere, or another job's, there is only the time to look again."""
    effect = await tx.effects.lock(pause.operation_id)
    if effect is None or effect.job_id != job.id or effect.status is EffectStatus.dispatched:
        return pause.retry_at
    return min(pause.retry_at, effect.retry_at or await tx.now())


async def _is_held(tx: Transaction, pause: HoldPause) -> bool:
    effect = await tx.effects.lock(pause.operation_id)
    return effect is None or effect.is_held


def _event(job: Job, kind: EventType, facts: Mapping[str, Any]) -> NewEvent:
    data = {"job_id": str(job.id), "thread_id": job.thread_id, "agent": job.agent, **facts}
    return NewEvent(kind, f"jobs/{job.id}", ACTOR, data, job.id)
