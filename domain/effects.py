"""Effects: the states of one approved call in the ledger, and what follows from each outcome.

`doubt` is set by the first try that nobody knows the outcome of, and cleared only by an answer about the operation.
While it is set, nothing here leads to a state that claims "did not happen" (promise 6).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID


class EffectClass(StrEnum):
    """What a tool declares about repeating it. The default is the strictest, `opaque`."""

    read = "read"
    transactional = "transactional"
    idempotent = "idempotent"
    keyed = "keyed"
    queryable = "queryable"
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
    S.planned: frozenset({S.dispatched, S.revoked, S.cancelled, S.in_doubt}),
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
REPEATABLE = frozenset({EffectClass.read, EffectClass.transactional, EffectClass.idempotent})
"""Classes whose effects may be sent again without knowing what became of the first time."""
SURE_OF_THEMSELVES = frozenset({EffectClass.read, EffectClass.transactional})
"""Classes whose try, if it did not succeed, has left nothing behind."""
PAST_ALL_BUDGETS = timedelta(days=1)


class Outcome(StrEnum):
    """What one attempt came to."""

    succeeded = "succeeded"
    refused = "refused"
    not_applied = "not_applied"
    unknown = "unknown"


class Found(StrEnum):
    """What a provider says of an operation when it is asked by our reference."""

    applied = "applied"
    refused = "refused"
    not_found = "not_found"
    unknown = "unknown"


class AtEnd(StrEnum):
    """What follows where an effect ends badly: the agent is told, or the job waits for an operator first."""

    tell_agent = "tell_agent"
    hold = "hold"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a tool declares: its class, how often and how long we try, and what follows a bad end.

    `window` is how long the provider honours a key, counted from the first dispatch; `margin` is kept off its end.
    `quiet_period` is longer than any request of ours may live: only what a probe does not find so long after the last
    dispatch did not happen. `max_elapsed` counts from the first dispatch, too. `retention` is how long arguments and
    result are kept after the end (None: always), `max_result_bytes` how much of a result the agent is given.
    `max_concurrent` and `per_minute` hold for all workers together, for all tools of one `provider`;
    its circuit opens for `circuit_open` after `circuit_failures` bad ends in a row (0: never).
    """

    effect_class: EffectClass = EffectClass.opaque
    window: timedelta | None = None
    margin: timedelta = timedelta(minutes=5)
    quiet_period: timedelta | None = None
    max_attempts: int = 5
    max_elapsed: timedelta = timedelta(hours=1)
    first_delay: timedelta = timedelta(seconds=1)
    longest_delay: timedelta = timedelta(minutes=5)
    on_refusal: AtEnd = AtEnd.tell_agent
    on_doubt: AtEnd = AtEnd.hold
    on_dead: AtEnd = AtEnd.hold
    retention: timedelta | None = None
    max_result_bytes: int = 64 * 1024
    provider: str | None = None
    max_concurrent: int | None = None
    per_minute: float | None = None
    circuit_failures: int = 5
    circuit_open: timedelta = timedelta(seconds=30)

    def at_end(self, status: EffectStatus) -> AtEnd:
        """What follows where an effect of the tool is in this state, which is a bad one."""
        ends = {S.failed: self.on_refusal, S.in_doubt: self.on_doubt, S.dead: self.on_dead}
        return ends.get(status, AtEnd.tell_agent)


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
    last_dispatched_at: datetime | None = None
    doubt_since: datetime | None = None
    retry_at: datetime | None = None
    result_type: str | None = None
    result: bytes | None = None
    error_code: str | None = None
    error_message: str | None = None
    provider_reference: str | None = None
    holds: bool = False
    purged_at: datetime | None = None

    @property
    def is_held(self) -> bool:
        """True if the job waits for an operator: in doubt or dead, or refused where its tool wants that looked at."""
        return self.status in HELD or (self.status is EffectStatus.failed and self.holds)

    @property
    def waits(self) -> bool:
        """True where `retry_at` says when to go on: to try again, to look whether it may leave, or to ask about it."""
        return self.status in (EffectStatus.planned, EffectStatus.retry_wait, EffectStatus.in_doubt)

    def is_as(self, other: Effect) -> bool:
        """True if nothing has become of it since it was `other`."""
        return (self.status, self.attempts, self.generation) == (other.status, other.attempts, other.generation)

    @property
    def idempotency_key(self) -> str:
        """What the provider is sent: the operation, and the generation that only an operator raises."""
        return f"{self.operation_id}.{self.generation}"


@dataclass(frozen=True, slots=True)
class Step:
    """One transition: where the effect goes, whether it is in doubt there, and when it may be tried again.

    `holds`: it has failed, and an operator is to look at that before the agent is told.
    """

    to: EffectStatus
    doubt: bool
    retry_at: datetime | None = None
    reason: str = ""
    holds: bool = False


SUCCESS = Step(S.succeeded, doubt=False)


def after_attempt(
    effect: Effect,
    terms: Terms,
    outcome: Outcome,
    *,
    now: datetime,
    jitter: random.Random,
    retry_after: timedelta | None = None,
) -> list[Step]:
    """The transitions that follow from an attempt that ended in `outcome`, in order, each a row of the table.

    `retry_after` is what the provider asked for; it wins over our own backoff.
    """
    doubted = effect.doubt_since is not None
    if outcome is Outcome.succeeded:
        return [SUCCESS]
    if outcome is Outcome.refused:
        # A refusal of a later try says nothing about the first one.
        return [Step(S.in_doubt, doubt=True) if doubted else _failed(terms)]
    wanted = retry_after if retry_after is not None else _delay(effect, terms, jitter)
    # Beyond the budget one time is as good as another; beyond the calendar there is none.
    retry_at = now + min(wanted, terms.max_elapsed + PAST_ALL_BUDGETS)
    if outcome is Outcome.unknown and terms.effect_class not in SURE_OF_THEMSELVES:
        return _after_unknown(effect, terms, retry_at, now)
    return _after_not_applied(effect, terms, doubted, retry_at)


def _after_unknown(effect: Effect, terms: Terms, retry_at: datetime, now: datetime) -> list[Step]:
    if terms.effect_class is EffectClass.queryable:
        # The provider is asked at once: it may well know.
        return [Step(S.in_doubt, doubt=True, retry_at=now)]
    steps = [Step(S.in_doubt, doubt=True)]
    if has_budget(effect, terms, retry_at) and may_repeat_in_doubt(effect, terms, now):
        steps.append(
            Step(S.retry_wait, doubt=True, retry_at=retry_at, reason=f"a repeat is safe: {terms.effect_class}")
        )
    return steps


def _after_not_applied(effect: Effect, terms: Terms, doubt: bool, retry_at: datetime) -> list[Step]:
    steps = [Step(S.retry_wait, doubt=doubt, retry_at=retry_at)]
    if not has_budget(effect, terms, retry_at):
        end = S.in_doubt if doubt else S.dead
        steps.append(Step(end, doubt=doubt, reason=used_up(effect, terms)))
    return steps


def after_lapse(effect_class: EffectClass | None = None, *, doubted: bool = False) -> list[Step]:
    """A worker was lost between the dispatch mark and the record: nobody knows what happened.

    What commits together with its record can't have happened, since it was not recorded. `effect_class` is that of the
    try; `doubted`: an earlier one had left doubt.
    """
    if effect_class is EffectClass.transactional:
        return [Step(S.retry_wait, doubt=doubted, reason="the worker was lost, and its transaction with it")]
    return [Step(S.in_doubt, doubt=True, reason="the worker was lost after the dispatch")]


def as_sent(terms: Terms, then: EffectClass | None) -> Terms:
    """The terms by which doubt may be left that a try of the class `then` has brought. What its tool declares by now
    says nothing about that try: it had no key, no reference or no transaction."""
    if then in (None, terms.effect_class):
        return terms
    return replace(terms, effect_class=EffectClass.opaque, window=None, quiet_period=None)


def after_doubt(effect: Effect, terms: Terms, *, now: datetime) -> Step | None:
    """The automatic way out of doubt when a run meets it again, if the tool's class has one."""
    if has_budget(effect, terms, now) and may_repeat_in_doubt(effect, terms, now):
        return Step(S.retry_wait, doubt=True, retry_at=now, reason=f"a repeat is safe: {terms.effect_class}")
    return None


def after_probe(effect: Effect, terms: Terms, found: Found, *, now: datetime) -> list[Step]:
    """What follows for an effect in doubt from what its provider says of it; nothing if it is still not known."""
    if found is Found.applied:
        return [Step(S.succeeded, doubt=False, reason="the provider says that it happened")]
    if found is Found.refused:
        return [_failed(terms, "the provider says that it refused it")]
    if found is Found.unknown or now < quiet_until(effect, terms):
        return []
    steps = [Step(S.retry_wait, doubt=False, retry_at=now, reason="the provider does not know of it")]
    if not has_budget(effect, terms, now):
        steps.append(Step(S.dead, doubt=False, reason=used_up(effect, terms)))
    return steps


def _failed(terms: Terms, reason: str = "") -> Step:
    return Step(S.failed, doubt=False, reason=reason, holds=terms.on_refusal is AtEnd.hold)


def quiet_until(effect: Effect, terms: Terms) -> datetime:
    """From when on the provider's "not found" counts: a request that is still on its way may be applied before."""
    last = effect.last_dispatched_at or effect.first_dispatched_at
    assert last is not None
    assert terms.quiet_period is not None
    return last + terms.quiet_period


def ask_again_at(effect: Effect, terms: Terms, asked: int, *, now: datetime) -> datetime | None:
    """When the provider is asked next, after it was asked `asked` times and has not settled it; None: no more.

    At the end of the quiet period; and, if it could not answer, later and later, for as long as the budget of time.
    """
    quiet = quiet_until(effect, terms)
    if now < quiet:
        return min(quiet, now + _longest(terms, asked))
    last = effect.last_dispatched_at or effect.first_dispatched_at
    assert last is not None
    later = now + _longest(terms, asked)
    return later if later <= max(quiet, last + terms.max_elapsed) else None


def before_repeat(effect: Effect, terms: Terms, *, now: datetime) -> Step | None:
    """Where an effect goes that is due, but was sent before with an unknown outcome, and can't be repeated safely any
    more: its key has run out meanwhile, or its tool's class has changed. None if it may be sent."""
    if effect.doubt_since is None or may_repeat_in_doubt(effect, terms, now):
        return None
    return Step(S.in_doubt, doubt=True, reason=f"a repeat is not safe any more: {terms.effect_class}")


def is_due(effect: Effect, now: datetime) -> bool:
    return effect.retry_at is None or effect.retry_at <= now


def has_budget(effect: Effect, terms: Terms, retry_at: datetime) -> bool:
    """True if another try at `retry_at` is within the number of tries and the time."""
    first = effect.first_dispatched_at
    return effect.attempts < terms.max_attempts and (first is None or retry_at <= first + terms.max_elapsed)


def used_up(effect: Effect, terms: Terms) -> str:
    """Which part of the budget is gone."""
    if effect.attempts >= terms.max_attempts:
        return f"{effect.attempts} attempts used up"
    return f"the time for retries ({terms.max_elapsed}) used up"


def may_repeat_in_doubt(effect: Effect, terms: Terms, now: datetime) -> bool:
    """True if sending again can't make it happen twice."""
    if terms.effect_class is EffectClass.keyed:
        return key_is_fresh(effect, terms, now)
    return terms.effect_class in REPEATABLE


def key_is_fresh(effect: Effect, terms: Terms, now: datetime) -> bool:
    """True while the provider still honours the key of the first dispatch."""
    if effect.first_dispatched_at is None or terms.window is None:
        return terms.window is not None
    return now < effect.first_dispatched_at + terms.window - terms.margin


def _delay(effect: Effect, terms: Terms, jitter: random.Random) -> timedelta:
    """Exponential with full jitter and a cap."""
    return timedelta(seconds=jitter.uniform(0.0, _longest(terms, effect.attempts - 1).total_seconds()))


def _longest(terms: Terms, doublings: int) -> timedelta:
    most = terms.first_delay.total_seconds() * 2.0 ** min(max(doublings, 0), 60)
    return timedelta(seconds=min(terms.longest_delay.total_seconds(), most))


def is_legal(source: EffectStatus, target: EffectStatus, *, doubt: bool) -> bool:
    """The whole guard: a listed transition, and none that denies while in doubt."""
    return target in TRANSITIONS[source] and not (doubt and target in DENIES_HAPPENING)


def sources_of(target: EffectStatus) -> list[str]:
    """The states from which `target` may be reached: the guard of the one UPDATE that goes there."""
    return sorted(source for source, targets in TRANSITIONS.items() if target in targets)
