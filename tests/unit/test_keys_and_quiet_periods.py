"""The two times at which a repeat becomes unsafe, or safe: to the second."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from signoff.domain.effects import Effect, EffectClass, EffectStatus, Found, Terms, after_probe, before_repeat

S = EffectStatus
SENT = datetime(2026, 1, 1, tzinfo=UTC)
AGAIN = SENT + timedelta(minutes=20)
KEYED = Terms(EffectClass.keyed, window=timedelta(hours=24), margin=timedelta(minutes=5))
QUERYABLE = Terms(EffectClass.queryable, quiet_period=timedelta(minutes=15))
SECOND = timedelta(seconds=1)


def doubted(status: EffectStatus) -> Effect:
    effect = Effect("op", 0, UUID(int=1), "t", "pay", {}, "d", status, 2, doubt_since=SENT)
    return replace(effect, first_dispatched_at=SENT, last_dispatched_at=AGAIN)


@pytest.mark.parametrize(("late", "goes"), [(-SECOND, None), (timedelta(), S.in_doubt)])
def test_a_key_is_sent_again_until_the_margin_of_its_window(late: timedelta, goes: EffectStatus | None) -> None:
    step = before_repeat(doubted(S.retry_wait), KEYED, now=SENT + timedelta(hours=24, minutes=-5) + late)
    assert (step and step.to) == goes


@pytest.mark.parametrize(("late", "goes"), [(-SECOND, []), (timedelta(), [S.retry_wait])])
def test_not_found_counts_from_the_end_of_the_quiet_period(late: timedelta, goes: list[EffectStatus]) -> None:
    steps = after_probe(doubted(S.in_doubt), QUERYABLE, Found.not_found, now=AGAIN + timedelta(minutes=15) + late)
    assert [step.to for step in steps] == goes
