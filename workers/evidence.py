"""What came back after the right to record it was lost: always kept, and it may settle doubt or raise an alarm."""

from __future__ import annotations

from signoff.domain.effects import SUCCESS, AtEnd, Effect, EffectClass, EffectStatus, Outcome, Step, Terms
from signoff.domain.events import EventType, NewEvent
from signoff.domain.evidence import Alarm, FromEvidence, from_another_generation, from_evidence
from signoff.domain.jobs import ENDED, Job, JobStatus
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer
from signoff.workers.stepping import take_step


async def keep_late(store: PostgresStore, sent: Effect, terms: Terms, answer: Answer, worker: str) -> None:
    """Keeps an answer to `sent` that came too late, and lets it settle what it can. The run itself is over."""
    async with store.begin() as tx:
        job = await tx.jobs.lock(sent.job_id)
        effect = await tx.effects.lock(sent.operation_id)
        assert job is not None
        assert effect is not None
        found = await _what_follows(tx, effect, sent, answer.outcome, terms)
        await tx.doubt.keep_evidence(
            sent, worker, answer.outcome, answer.message, answer.result, settled=bool(found.steps)
        )
        await _follow(tx, job, effect, found, answer, worker)


async def hear_late(
    tx: PostgresTransaction, effect: Effect, sent: Effect, terms: Terms, answer: Answer, actor: str
) -> None:
    """The same for the word of a provider that was asked about `sent`, which has moved to `effect` meanwhile. Its job
    and the effect itself are locked."""
    job = await tx.jobs.get(sent.job_id)
    assert job is not None
    await _follow(tx, job, effect, await _what_follows(tx, effect, sent, answer.outcome, terms), answer, actor)


async def _follow(
    tx: PostgresTransaction, job: Job, effect: Effect, found: FromEvidence, answer: Answer, actor: str
) -> None:
    """Raises the alarm, if there is one, and takes the steps."""
    if found.alarm is not None and not await _is_harmless(tx, effect):
        await raise_alarm(tx, effect, found.alarm, actor)
    for step in found.steps:
        effect = await take_step(tx, effect, step, actor, answer=answer)
    if found.steps:
        await wake(tx, job, actor)


async def _what_follows(
    tx: PostgresTransaction, effect: Effect, sent: Effect, outcome: Outcome, terms: Terms
) -> FromEvidence:
    if effect.generation != sent.generation:
        return from_another_generation(effect, outcome)
    only = not await tx.doubt.is_unknown_beside(effect.operation_id, sent.attempts)
    holds = terms.on_refusal is AtEnd.hold
    return from_evidence(effect, sent.attempts, outcome, only_unknown=only, holds=holds)


async def settle_by_evidence(tx: PostgresTransaction, effect: Effect, actor: str) -> Effect:
    """An effect that has just come into doubt, and of which a success was kept while it was under way once more."""
    if effect.status is not EffectStatus.in_doubt or (late := await tx.doubt.late_success(effect)) is None:
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


async def _is_harmless(tx: PostgresTransaction, effect: Effect) -> bool:
    """A repeat of what only reads, or changes nothing by being repeated, is nothing to look at."""
    return await tx.effects.class_of(effect.operation_id) in (EffectClass.read, EffectClass.idempotent)
