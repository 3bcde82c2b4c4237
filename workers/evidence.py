"""What came back after the right to record it was lost: always kept, and it may settle doubt or raise an alarm."""

from __future__ import annotations

from signoff.domain.effects import SUCCESS, Effect, EffectClass, EffectStatus, Outcome, Step
from signoff.domain.events import EventType, NewEvent
from signoff.domain.evidence import Alarm, from_evidence
from signoff.domain.jobs import ENDED, Job, JobStatus
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer
from signoff.workers.stepping import take_step


async def keep_late(store: PostgresStore, sent: Effect, answer: Answer, worker: str) -> None:
    """Keeps an answer to `sent` that came too late, and lets it settle what it can. The run itself is over."""
    async with store.begin() as tx:
        job = await tx.jobs.lock(sent.job_id)
        effect = await tx.effects.lock(sent.operation_id)
        assert job is not None
        assert effect is not None
        if effect.generation != sent.generation:
            # An operator had it sent anew since: what came of it before was settled then.
            await _keep(tx, sent, answer, worker, settled=False)
            return
        only = not await tx.doubt.is_unknown_beside(effect.operation_id, sent.attempts)
        found = from_evidence(effect, sent.attempts, answer.outcome, only_unknown=only)
        await _keep(tx, sent, answer, worker, settled=bool(found.steps))
        if found.alarm is not None and not await _is_harmless(tx, effect):
            await raise_alarm(tx, effect, found.alarm, worker)
        for step in found.steps:
            effect = await take_step(tx, effect, step, worker, answer=answer)
        if found.steps:
            await wake(tx, job, worker)


async def settle_by_evidence(tx: PostgresTransaction, effect: Effect, actor: str) -> Effect:
    """An effect that has just come into doubt, and of which a success was kept while it was under way once more."""
    late = await tx.doubt.late_success(effect)
    if effect.status is not EffectStatus.in_doubt or late is None:
        return effect
    attempt, result = late
    step = Step(SUCCESS.to, SUCCESS.doubt, reason=f"try {attempt} had succeeded: its answer came late")
    return await take_step(tx, effect, step, actor, answer=Answer(Outcome.succeeded, None, result))


async def raise_alarm(tx: PostgresTransaction, effect: Effect, alarm: Alarm, actor: str) -> None:
    """A person has to look: nothing waits for it."""
    await tx.doubt.add_alarm(effect, alarm)
    facts = {"operation_id": effect.operation_id, "job_id": str(effect.job_id), "tool": effect.tool}
    data = {**facts, "kind": str(alarm.kind), "message": alarm.message}
    subject = f"effects/{effect.operation_id}"
    await tx.events.append(NewEvent(EventType.effect_alarmed, subject, actor, data, effect.job_id))


async def wake(tx: PostgresTransaction, job: Job, actor: str) -> None:
    """The job of an effect that something beside its run has settled: it goes on, if it waited for that."""
    if job.status is JobStatus.awaiting_operator:
        await tx.jobs.move(job.id, JobStatus.queued)
    elif job.status in ENDED:
        await tx.effects.cancel_unsent(job.id, actor)
    elif job.status is JobStatus.queued:
        await tx.jobs.hurry(job.id)


async def _keep(tx: PostgresTransaction, sent: Effect, answer: Answer, worker: str, *, settled: bool) -> None:
    await tx.doubt.keep_evidence(sent, worker, answer.outcome, answer.message, answer.result, settled=settled)


async def _is_harmless(tx: PostgresTransaction, effect: Effect) -> bool:
    """A repeat of what only reads, or changes nothing by being repeated, is nothing to look at."""
    return await tx.effects.class_of(effect.operation_id) in (EffectClass.read, EffectClass.idempotent)
