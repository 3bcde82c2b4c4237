"""Effects: the states of one approved call in the ledger, and what follows from each outcome.

`doubt` is set by the first try that nobody knows the outcome of, and cleared only by an answer about the operation.
While it is set, nothing here leads to a state that claims "did not happen" (promise 6).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID


class EffectClass(StrEnum):
    """What a tool declares about repeating it. The default is the strictest, `opaque`."""

    read = "read"
    idempotent = "idempotent"
    keyed = "keyed"
    opaque = "opaque"


class EffectStatus(StrEnum):
    planned = "planned"
    dispatched = "dispatched"
    retry_wait = "retry_wait"
    in_doubt = "in_doubt"
    succeeded = "succeeded"
    failed = "failed"
    dead = "dead"
    revoked = "revoked"
    cancelled = "cancelled"
    skipped = "skipped"


S = EffectStatus

TRANSITIONS: Mapping[EffectStatus, frozenset[EffectStatus]] = {
    S.planned: frozenset({S.dispatched, S.revoked, S.cancelled}),
    S.retry_wait: frozenset({S.dispatched, S.revoked, S.cancelled, S.dead, S.in_doubt}),
    S.dispatched: frozenset({S.succeeded, S.failed, S.retry_wait, S.in_doubt}),
    S.in_doubt: frozenset({S.retry_wait, S.succeeded, S.failed, S.skipped}),
    S.succeeded: frozenset(),
    S.failed: frozenset({S.planned, S.skipped}),
    S.dead: frozenset({S.planned, S.skipped}),
    S.revoked: frozenset(),
    S.cancelled: frozenset(),
    S.skipped: frozenset(),
}
DENIES_HAPPENING = frozenset({S.failed, S.dead, S.cancelled, S.revoked, S.planned})
"""States that say "it did not happen": closed while there is doubt."""
ENDED = frozenset({S.succeeded, S.failed, S.revoked, S.cancelled, S.skipped})
"""States whose outcome the agent is told. `dead` and `in_doubt` hold the job instead."""
HELD = frozenset({S.in_doubt, S.dead})


class Outcome(StrEnum):
    """What one attempt came to."""

    succeeded = "succeeded"
    refused = "refused"
    not_applied = "not_applied"
    unknown = "unknown"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a tool declares, and how often and how long we try.

    `window` is how long the provider honours a key, counted from the first dispatch; `margin` is kept off its end.
    """

    effect_class: EffectClass = EffectClass.opaque
    window: timedelta | None = None
    margin: timedelta = timedelta(minutes=5)
    max_attempts: int = 5
    first_delay: timedelta = timedelta(seconds=1)
    longest_delay: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Effect:
    """One approved tool call, as the ledger has it."""

    operation_id: str
    generation: int
    job_id: UUID
    thread_id: str
    tool: str
    args: Mapping[str, Any]
    digest: str
    status: EffectStatus
    attempts: int
    fence: int | None = None
    first_dispatched_at: datetime | None = None
    doubt_since: datetime | None = None
    retry_at: datetime | None = None
    result_type: str | None = None
    result: bytes | None = None
    error_code: str | None = None
    error_message: str | None = None
    provider_reference: str | None = None

    @property
    def idempotency_key(self) -> str:
        """What the provider is sent: the operation, and the generation that only an operator raises."""
        return f"{self.operation_id}.{self.generation}"


@dataclass(frozen=True, slots=True)
class Step:
    """One transition: where the effect goes, whether it is in doubt there, and when it may be tried again."""

    to: EffectStatus
    doubt: bool
    retry_at: datetime | None = None
    reason: str = ""


SUCCESS = Step(S.succeeded, doubt=False)


def after_attempt(
    effect: Effect, terms: Terms, outcome: Outcome, *, now: datetime, jitter: random.Random
) -> list[Step]:
    """The transitions that follow from an attempt that ended in `outcome`, in order, each a row of the table."""
    doubted = effect.doubt_since is not None
    if outcome is Outcome.succeeded:
        return [SUCCESS]
    if outcome is Outcome.refused:
        # A refusal of a later try says nothing about the first one.
        return [Step(S.in_doubt if doubted else S.failed, doubt=doubted)]
    if outcome is Outcome.unknown and terms.effect_class is not EffectClass.read:
        return _after_unknown(effect, terms, now, jitter)
    return _after_not_applied(effect, terms, doubted, now, jitter)


def _after_unknown(effect: Effect, terms: Terms, now: datetime, jitter: random.Random) -> list[Step]:
    steps = [Step(S.in_doubt, doubt=True)]
    if has_budget(effect, terms) and may_repeat_in_doubt(effect, terms, now):
        reason = f"a repeat is safe: {terms.effect_class}"
        steps.append(Step(S.retry_wait, doubt=True, retry_at=now + _delay(effect, terms, jitter), reason=reason))
    return steps


def _after_not_applied(effect: Effect, terms: Terms, doubt: bool, now: datetime, jitter: random.Random) -> list[Step]:
    steps = [Step(S.retry_wait, doubt=doubt, retry_at=now + _delay(effect, terms, jitter))]
    if not has_budget(effect, terms):
        end = S.in_doubt if doubt else S.dead
        steps.append(Step(end, doubt=doubt, reason=f"{effect.attempts} attempts used up"))
    return steps


def after_lapse() -> Step:
    """A worker was lost between the dispatch mark and the record: nobody knows what happened."""
    return Step(S.in_doubt, doubt=True, reason="the worker was lost after the dispatch")


def after_doubt(effect: Effect, terms: Terms, *, now: datetime) -> Step | None:
    """The automatic way out of doubt when a run meets it again, if the tool's class has one."""
    if has_budget(effect, terms) and may_repeat_in_doubt(effect, terms, now):
        return Step(S.retry_wait, doubt=True, retry_at=now, reason=f"a repeat is safe: {terms.effect_class}")
    return None


def before_repeat(effect: Effect, terms: Terms, *, now: datetime) -> Step | None:
    """Where an effect goes that is due, but was sent before with an unknown outcome, and can't be repeated safely any
    more: its key has run out meanwhile, or its tool's class has changed. None if it may be sent."""
    if effect.doubt_since is None or may_repeat_in_doubt(effect, terms, now):
        return None
    return Step(S.in_doubt, doubt=True, reason=f"a repeat is not safe any more: {terms.effect_class}")


def is_due(effect: Effect, now: datetime) -> bool:
    return effect.retry_at is None or effect.retry_at <= now


def has_budget(effect: Effect, terms: Terms) -> bool:
    return effect.attempts < terms.max_attempts


def may_repeat_in_doubt(effect: Effect, terms: Terms, now: datetime) -> bool:
    """True if sending again can't make it happen twice."""
    if terms.effect_class is EffectClass.keyed:
        return key_is_fresh(effect, terms, now)
    return terms.effect_class in (EffectClass.read, EffectClass.idempotent)


def key_is_fresh(effect: Effect, terms: Terms, now: datetime) -> bool:
    """True while the provider still honours the key of the first dispatch."""
    if effect.first_dispatched_at is None or terms.window is None:
        return terms.window is not None
    return now < effect.first_dispatched_at + terms.window - terms.margin


def _delay(effect: Effect, terms: Terms, jitter: random.Random) -> timedelta:
    """Exponential with full jitter and a cap."""
    doublings = max(effect.attempts - 1, 0)
    most = min(terms.longest_delay.total_seconds(), terms.first_delay.total_seconds() * 2**doublings)
    return timedelta(seconds=jitter.uniform(0.0, most))


def is_legal(source: EffectStatus, target: EffectStatus, *, doubt: bool) -> bool:
    """The whole guard: a listed transition, and none that denies while in doubt."""
    return target in TRANSITIONS[source] and not (doubt and target in DENIES_HAPPENING)


def sources_of(target: EffectStatus) -> list[str]:
    """The states from which `target` may be reached: the guard of the one UPDATE that goes there."""
    return sorted(source for source, targets in TRANSITIONS.items() if target in targets)
