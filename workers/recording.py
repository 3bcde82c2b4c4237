"""Recording what an attempt came to, under the fence; and keeping what comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from signoff.domain.effects import Effect, EffectStatus, Step
from signoff.domain.errors import LeaseLost, StoreUnavailable
from signoff.domain.events import EventType, NewEvent
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer

TRIES = 60
PAUSE_SECONDS = 0.5

TOLD: Mapping[EffectStatus, EventType] = {
    EffectStatus.succeeded: EventType.effect_succeeded,
    EffectStatus.failed: EventType.effect_failed,
    EffectStatus.in_doubt: EventType.effect_doubted,
    EffectStatus.dead: EventType.effect_died,
    EffectStatus.revoked: EventType.effect_revoked,
}


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
    for step in steps:
        succeeded = step.to is EffectStatus.succeeded
        error = None if succeeded else (str(answer.outcome), answer.message or "")
        effect = await take_step(tx, effect, step, worker, result=answer.result if succeeded else None, error=error)
    await tell(tx, effect, worker, message=answer.message)
    return effect


async def take_step(
    tx: PostgresTransaction,
    effect: Effect,
    step: Step,
    worker: str,
    *,
    result: tuple[str, bytes] | None = None,
    error: tuple[str, str] | None = None,
) -> Effect:
    """Raises LeaseLost if the effect is no longer where `effect` says."""
    if not await tx.effects.move(effect, step, actor=worker, result=result, error=error):
        raise LeaseLost(f"the effect {effect.operation_id} moved away from {effect.status}")
    result_type, payload = result or (None, None)
    return replace(
        effect,
        status=step.to,
        retry_at=step.retry_at,
        doubt_since=(effect.doubt_since or effect.first_dispatched_at) if step.doubt else None,
        result_type=result_type,
        result=payload,
        error_message=error[1] if error else None,
    )


async def tell(tx: PostgresTransaction, effect: Effect, actor: str, **facts: Any) -> None:
    """The event of where the effect is now, if there is one for it."""
    kind = TOLD.get(effect.status)
    if kind is None:
        return
    data = {"operation_id": effect.operation_id, "job_id": str(effect.job_id), "tool": effect.tool, **facts}
    await tx.events.append(NewEvent(kind, f"effects/{effect.operation_id}", actor, data, effect.job_id))
