"""Calling a tool whose dispatch is marked, and what follows from its answer: alike in a run and by itself."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from signoff.domain.effects import SUCCESS, Effect, EffectClass, EffectStatus, Outcome, Step, after_attempt, as_sent
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer, carry_out
from signoff.workers.current import CurrentEffect
from signoff.workers.holding_back import note_outcome
from signoff.workers.preparing import Sent
from signoff.workers.recording import take_steps
from signoff.workers.stepping import take_step
from signoff.workers.transacting import carry_out_in_transaction, if_committed

STOPPED_BEFORE = Answer(Outcome.not_applied, "the run was stopped before the call was made", None, given_up=True)
STOPPED_DURING = Answer(Outcome.unknown, "the run was stopped during the call", None, given_up=True)

LockJob = Callable[[PostgresTransaction], Awaitable[Any]]
"""Locks the job's row: under its fence, where a run holds one."""


def current(effect: Effect) -> CurrentEffect:
    return CurrentEffect(effect.operation_id, effect.idempotency_key, effect.attempts)


async def call_tool(
    store: PostgresStore, sent: Sent, call_id: str, args: Mapping[str, Any], worker: str, lock_job: LockJob
) -> Answer:
    """Calls the tool; one in our own database in the transaction that records its success.

    Raises:
        LeaseLost: in that transaction, from `lock_job` or because the effect has moved.
    """
    if sent.terms.effect_class is not EffectClass.transactional:
        return await carry_out(sent.tool, sent.terms, current(sent.effect), call_id, args)

    async def record(tx: PostgresTransaction, answer: Answer) -> Effect:
        await lock_job(tx)
        after = await take_step(tx, sent.effect, SUCCESS, worker, answer=answer, outcome=answer.outcome)
        await _note(tx, sent, answer)
        return after

    return await carry_out_in_transaction(store, sent, current(sent.effect), call_id, args, record)


async def record_answer(
    tx: PostgresTransaction, sent: Sent, answer: Answer, worker: str, *, now: datetime, jitter: random.Random
) -> Effect:
    """Records whatever the answer is. The job's row is locked.

    Raises:
        LeaseLost: the effect is no longer where this attempt left it.
    """
    if (committed := await if_committed(tx, sent)) is not None:
        return committed
    after = await take_steps(tx, sent.effect, _after(sent, answer, now, jitter), answer, worker)
    await _note(tx, sent, answer)
    if answer.left_open:
        await tx.effects.leave_to_operator(after.operation_id)
    return after


def _after(sent: Sent, answer: Answer, now: datetime, jitter: random.Random) -> list[Step]:
    """The transitions that follow. A try that for certain was not made is none that counts."""
    if answer is STOPPED_BEFORE:
        return [Step(EffectStatus.retry_wait, doubt=sent.effect.doubt_since is not None, retry_at=now)]
    terms = as_sent(sent.terms, EffectClass.opaque) if answer.left_open else sent.terms
    return after_attempt(sent.effect, terms, answer.outcome, now=now, jitter=jitter, retry_after=answer.retry_after)


async def _note(tx: PostgresTransaction, sent: Sent, answer: Answer) -> None:
    """Counts the answer for the circuit of the provider; that we gave up is none of its. A success counts where it may
    close it."""
    if not answer.given_up and (answer.outcome is not Outcome.succeeded or sent.failing):
        await note_outcome(tx, sent.effect, sent.terms, sent.agent, answer.outcome, answer.message)
