"""Every path that an effect can take: doubt never becomes a denial, it succeeds at most once, and only legal steps."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from signoff.domain.effects import (
    DENIES_HAPPENING,
    ENDED,
    Effect,
    EffectClass,
    EffectStatus,
    Found,
    Outcome,
    Step,
    Terms,
    after_attempt,
    after_doubt,
    after_lapse,
    after_probe,
    before_repeat,
    has_budget,
    is_due,
    is_legal,
    key_is_fresh,
)

S = EffectStatus
SENDABLE = (S.planned, S.retry_wait)
START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = timedelta(hours=1)
QUIET = timedelta(minutes=15)
LEAVES_NOTHING = (EffectClass.read, EffectClass.transactional)


class Effects(RuleBasedStateMachine):
    """One effect, and beside it what the world knows: `unknown` is a try that nobody has answered about."""

    def __init__(self) -> None:
        super().__init__()
        self.jitter = random.Random(1)
        self.now = START
        self.unknown = False
        self.extra = 0
        self.times_succeeded = 0

    @initialize(effect_class=st.sampled_from(EffectClass))
    def begin(self, effect_class: EffectClass) -> None:
        self._plan(effect_class)

    @precondition(lambda self: self.effect.status in ENDED - {S.failed})
    @rule(effect_class=st.sampled_from(EffectClass))
    def begin_another(self, effect_class: EffectClass) -> None:
        self._plan(effect_class)

    def _plan(self, effect_class: EffectClass) -> None:
        self.unknown, self.extra, self.times_succeeded = False, 0, 0
        window = WINDOW if effect_class is EffectClass.keyed else None
        quiet = QUIET if effect_class is EffectClass.queryable else None
        self.terms = Terms(effect_class=effect_class, window=window, quiet_period=quiet, max_attempts=3)
        self.effect = Effect("op", 0, UUID(int=1), "t", "pay", {}, "d", S.planned, 0)

    @precondition(lambda self: self.effect.status in SENDABLE)
    @rule(minutes=st.sampled_from([0, 10, 90]))
    def send(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)
        if not is_due(self.effect, self.now):
            return
        if step := before_repeat(self.effect, self.terms, now=self.now):
            self._take(step)
            return
        first = self.effect.first_dispatched_at or self.now
        if self.unknown:
            ours_to_repeat = self.terms.effect_class not in (EffectClass.opaque, EffectClass.queryable)
            assert ours_to_repeat, "nobody may send it again, not knowing"
            if self.terms.effect_class is EffectClass.keyed:
                assert key_is_fresh(replace(self.effect, first_dispatched_at=first), self.terms, self.now)
        assert self.effect.attempts < self.terms.max_attempts + self.extra, "the budget, and what operators added"
        self._to(S.dispatched)
        sent = replace(self.effect, attempts=self.effect.attempts + 1)
        self.effect = replace(sent, first_dispatched_at=first, last_dispatched_at=self.now)

    @precondition(lambda self: self.effect.status is S.dispatched)
    @rule(outcome=st.sampled_from(Outcome))
    def answer(self, outcome: Outcome) -> None:
        if outcome is Outcome.succeeded:
            self.unknown = False
        if outcome is Outcome.unknown and self.terms.effect_class not in LEAVES_NOTHING:
            self.unknown = True
        for step in after_attempt(self.effect, self.terms, outcome, now=self.now, jitter=self.jitter):
            self._take(step)

    @precondition(lambda self: self.effect.status is S.dispatched)
    @rule()
    def lose_the_worker(self) -> None:
        leaves_doubt = self.terms.effect_class is not EffectClass.transactional
        self.unknown = self.unknown or leaves_doubt
        # How often a worker may be lost, the tries of its job say.
        self.extra += not leaves_doubt
        for step in after_lapse(self.terms.effect_class):
            self._take(step)

    @precondition(lambda self: self.effect.status is S.in_doubt)
    @rule()
    def meet_again(self) -> None:
        if step := after_doubt(self.effect, self.terms, now=self.now):
            assert has_budget(self.effect, self.terms, self.now)
            self._take(step)

    @precondition(lambda self: self.effect.status is S.in_doubt and self.terms.quiet_period is not None)
    @rule(found=st.sampled_from(Found), minutes=st.sampled_from([0, 10, 20]))
    def ask_the_provider(self, found: Found, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)
        steps = after_probe(self.effect, self.terms, found, now=self.now)
        assert self.effect.last_dispatched_at is not None
        if found is Found.not_found and self.now < self.effect.last_dispatched_at + QUIET:
            assert not steps, "a request that is on its way may still be applied"
        if steps:
            self.unknown = False
        for step in steps:
            self._take(step)

    @precondition(lambda self: self.effect.status in SENDABLE and self.effect.attempts > 0)
    @rule(to=st.sampled_from([S.revoked, S.cancelled]))
    def lose_authority_or_the_job(self, to: EffectStatus) -> None:
        doubted = self.effect.doubt_since is not None
        self._take(Step(S.in_doubt if doubted else to, doubt=doubted))

    @precondition(lambda self: self.effect.status is S.in_doubt)
    @rule(to=st.sampled_from([S.succeeded, S.retry_wait, S.skipped]))
    def an_operator_settles(self, to: EffectStatus) -> None:
        self.unknown = False
        self.extra += 1
        self._take(Step(to, doubt=False))

    @precondition(lambda self: self.effect.status in (S.failed, S.dead))
    @rule(to=st.sampled_from([S.planned, S.skipped]))
    def an_operator_acts(self, to: EffectStatus) -> None:
        self.extra += 1
        self._take(Step(to, doubt=False))

    @invariant()
    def doubt_is_never_denied(self) -> None:
        if hasattr(self, "effect") and self.unknown:
            assert self.effect.status not in DENIES_HAPPENING
            assert self.effect.doubt_since is not None

    @invariant()
    def doubt_is_shown(self) -> None:
        if hasattr(self, "effect") and self.effect.status is S.in_doubt:
            assert self.effect.doubt_since is not None
        if hasattr(self, "effect") and self.effect.status in ENDED:
            assert self.effect.doubt_since is None

    @invariant()
    def it_succeeds_once_at_most(self) -> None:
        assert self.times_succeeded <= 1

    def _take(self, step: Step) -> None:
        doubted = self.effect.doubt_since is not None
        assert is_legal(self.effect.status, step.to, doubt=doubted and step.doubt)
        self._to(step.to)
        since = (self.effect.doubt_since or self.now) if step.doubt else None
        self.effect = replace(self.effect, doubt_since=since, retry_at=step.retry_at)

    def _to(self, status: EffectStatus) -> None:
        assert is_legal(self.effect.status, status, doubt=False), (self.effect.status, status)
        self.times_succeeded += status is S.succeeded
        self.effect = replace(self.effect, status=status)


TestEffects = Effects.TestCase
TestEffects.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
