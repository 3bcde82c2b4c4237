"""Attacks on the rules of effects."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.effects import (
    Effect,
    EffectStatus,
    Outcome,
    Terms,
    after_attempt,
)
from signoff.domain.evidence import from_evidence

NOW = datetime(2026, 1, 1, tzinfo=UTC)
S = EffectStatus


def effect(status: EffectStatus, attempts: int = 1, **more: Any) -> Effect:
    times = {"first_dispatched_at": NOW, "last_dispatched_at": NOW}
    return Effect("op", 0, uuid4(), "t", "pay", {}, "d", status, attempts, **{**times, **more})


def test_a_time_beyond_every_calendar_is_beyond_the_budget() -> None:
    """Unguarded: OverflowError in the transaction that records the answer."""
    steps = after_attempt(
        effect(S.dispatched),
        Terms(),
        Outcome.not_applied,
        now=NOW,
        jitter=random.Random(1),
        retry_after=timedelta.max,
    )
    assert [step.to for step in steps] == [S.retry_wait, S.dead]


@pytest.mark.parametrize("status", [S.planned])
def test_a_late_success_of_what_is_planned_again_raises_an_alarm(status: EffectStatus) -> None:
    """Unguarded: `planned` is among those that were not sent before, and no try came after it yet."""
    assert from_evidence(effect(status), 1, Outcome.succeeded, only_unknown=True).alarm is not None


def test_what_was_sent_by_a_ledger_that_was_lost_settles_no_doubt() -> None:
    """Unguarded: after a restore a worker of the lost time says "refused" of try 3, of which, and of try 2, the
    restored ledger knows nothing: it takes that for the only unknown one."""
    restored = effect(S.in_doubt, attempts=1, doubt_since=NOW, error_code="restored")
    assert from_evidence(restored, 3, Outcome.refused, only_unknown=True).steps == ()
