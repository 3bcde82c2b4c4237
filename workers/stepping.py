"""One transition of an effect, with what came of it, its history and its event."""

from __future__ import annotations

from dataclasses import replace

from signoff.domain.effect_events import event_of
from signoff.domain.effects import Effect, EffectStatus, Outcome, Step
from signoff.domain.errors import LeaseLost
from signoff.infra.postgres import results_aside
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers.carrying import Answer


async def take_step(
    tx: PostgresTransaction,
    effect: Effect,
    step: Step,
    worker: str,
    *,
    answer: Answer | None = None,
    outcome: Outcome | None = None,
    tell: bool = True,
    job_fence: int | None = None,
) -> Effect:
    """One transition with what came of it, its history, and its event if there is one for where it leads.

    Raises:
        LeaseLost: the effect is no longer where `effect` says.
    """
    succeeded = step.to is EffectStatus.succeeded and answer is not None
    result, error = (answer.result, None) if succeeded and answer else (None, _error(step, answer))
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
        effect,
        step,
        actor=worker,
        result=result,
        reference=answer.reference if answer is not None else None,
        error=error,
        outcome=outcome,
        event=event,
        job_fence=job_fence,
    )
    if not moved:
        raise LeaseLost(f"the effect {effect.operation_id} moved away from {effect.status}")
    if succeeded and answer is not None and answer.aside is not None:
        await results_aside.keep(tx.conn, effect.operation_id, answer.aside)
    return after


def _error(step: Step, answer: Answer | None) -> tuple[str, str] | None:
    if answer is None:
        return (str(step.to), step.reason) if step.reason else None
    return str(answer.outcome), answer.message or ""
