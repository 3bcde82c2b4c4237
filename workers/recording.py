"""Recording what an attempt came to, under the fence; and keeping what comes too late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from signoff.domain.effects import Effect, EffectStatus, Outcome, Step, Terms
from signoff.domain.errors import LeaseLost, StoreUnavailable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer
from signoff.workers.evidence import keep_late, settle_by_evidence
from signoff.workers.stepping import take_step

TRIES = 60
PAUSE_SECONDS = 0.5


async def record_for_certain(
    store: PostgresStore,
    effect: Effect,
    terms: Terms,
    answer: Answer,
    worker: str,
    record: Callable[[], Awaitable[Effect]],
) -> Effect:
    """Records the answer. A database that is away is waited for, since the answer is nowhere else.

    Raises:
        LeaseLost: the fence is gone; the answer is kept as evidence.
        StoreUnavailable: the database stayed away.
    """
    lost: LeaseLost | None = None
    for tried in range(TRIES):
        try:
            if lost is not None:
                await keep_late(store, effect, terms, answer, worker)
                raise lost
            if tried and (known := await _as_recorded(store, effect, answer)) is not None:
                return known
            return await record()
        except StoreUnavailable:
            if tried + 1 == TRIES:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        except LeaseLost as error:
            if lost is not None:
                raise
            lost = error
    raise AssertionError("unreachable")


async def _as_recorded(store: PostgresStore, sent: Effect, answer: Answer) -> Effect | None:
    """The effect, if this very answer was committed, and only the word that it was has been lost."""
    async with store.each_alone() as tx:
        return await tx.effects.recorded(sent, answer.outcome)


async def take_steps(
    tx: PostgresTransaction, effect: Effect, steps: Sequence[Step], answer: Answer, worker: str
) -> Effect:
    """Takes the steps that follow from an answer, and tells of where they lead. Not where they would deny what a late
    word of an earlier try has told: that it happened.

    Raises:
        LeaseLost: the effect is no longer where this attempt left it.
    """
    if answer.outcome is not Outcome.succeeded and effect.attempts > 1 and await tx.doubt.late_success(effect):
        steps = (Step(EffectStatus.in_doubt, doubt=True, reason="an earlier try had succeeded"),)
    outcome: Outcome | None = answer.outcome
    for step in steps:
        last = step is steps[-1]
        effect = await take_step(tx, effect, step, worker, answer=answer, outcome=outcome, tell=last)
        outcome = None
    return effect if answer.outcome is Outcome.succeeded else await settle_by_evidence(tx, effect, worker)
