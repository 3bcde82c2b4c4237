"""Recording what an attempt came to, under the fence; and keeping what comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from signoff.domain.effect_events import event_of
from signoff.domain.effects import Effect, EffectStatus, Outcome, Step
from signoff.domain.errors import LeaseLost, StoreUnavailable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer

TRIES = 60
PAUSE_SECONDS = 0.5
NO_ANSWER = Answer(Outcome.unknown, None, None)


async def record_for_certain(
    store: PostgresStore, effect: Effect, answer: Answer, worker: str, record: Callable[[], Awaitable[Effect]]
) -> Effect:
    """Records the answer. A database that is away is waited for, since the answer is nowhere else.

    Raises:
        LeaseLost: the fence is gone; the answer is kept as evidence.
        StoreUnavailable: the database stayed away.
    """
    for left in reversed(range(TRIES)):
        try:
            return await record()
        except StoreUnavailable:
            if not left:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        except LeaseLost:
            async with store.begin() as tx:
                await tx.effects.keep_evidence(effect, worker, answer.outcome, answer.message, answer.result)
            raise
    raise AssertionError("unreachable")


async def take_steps(
    tx: PostgresTransaction, effect: Effect, steps: Sequence[Step], answer: Answer, worker: str
) -> Effect:
    """Takes the steps that follow from an answer, and tells of where they lead.

    Raises:
        LeaseLost: the effect is no longer where this attempt left it.
    """
    outcome: Outcome | None = answer.outcome
    for step in steps:
        last = step is steps[-1]
        effect = await take_step(tx, effect, step, worker, answer=answer, outcome=outcome, tell=last)
        outcome = None
    return effect


async def take_step(
    tx: PostgresTransaction,
    effect: Effect,
    step: Step,
    worker: str,
    *,
    answer: Answer = NO_ANSWER,
    outcome: Outcome | None = None,
    tell: bool = True,
    job_fence: int | None = None,
) -> Effect:
    """One transition with what came of it, its history, and its event if there is one for where it leads.

    Raises:
        LeaseLost: the effect is no longer where `effect` says.
    """
    result, error = (answer.result, None) if step.to is EffectStatus.succeeded else (None, _error(step, answer))
    after = replace(
        effect,
        status=step.to,
        retry_at=step.retry_at,
        holds=step.holds,
        doubt_since=(effect.doubt_since or effect.first_dispatched_at) if step.doubt else None,
        result_type=result[0] if result else None,
        result=result[1] if result else None,
        error_message=error[1] if error else None,
    )
    event = event_of(after, step.to, worker, error[1] if error else None) if tell else None
    moved = await tx.effects.move(
        effect, step, actor=worker, result=result, error=error, outcome=outcome, event=event, job_fence=job_fence
    )
    if not moved:
        raise LeaseLost(f"the effect {effect.operation_id} moved away from {effect.status}")
    return after


def _error(step: Step, answer: Answer) -> tuple[str, str] | None:
    if answer is NO_ANSWER:
        return (str(step.to), step.reason) if step.reason else None
    return str(answer.outcome), answer.message or ""
