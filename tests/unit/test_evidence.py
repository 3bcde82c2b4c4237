"""What a late answer makes of an effect: wherever it is by then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from signoff.domain.effects import Effect, EffectStatus, Outcome, is_legal
from signoff.domain.evidence import AlarmKind, from_evidence

S = EffectStatus
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EFFECT = Effect("op", 0, UUID(int=1), "t", "pay", {}, "d", S.in_doubt, 2, first_dispatched_at=NOW, doubt_since=NOW)
DOUBTED = (S.in_doubt, S.retry_wait, S.dispatched)


def at(status: EffectStatus, attempts: int) -> Effect:
    return replace(EFFECT, status=status, attempts=attempts, doubt_since=NOW if status in DOUBTED else None)


@pytest.mark.parametrize(
    ("status", "attempts", "ends", "alarm"),
    [
        (S.in_doubt, 1, S.succeeded, None),
        (S.in_doubt, 2, S.succeeded, AlarmKind.duplicate),
        (S.retry_wait, 1, S.succeeded, None),
        (S.retry_wait, 3, S.succeeded, AlarmKind.duplicate),
        (S.dispatched, 1, S.succeeded, None),
        (S.dispatched, 2, S.dispatched, AlarmKind.duplicate),
        (S.succeeded, 1, S.succeeded, None),
        (S.succeeded, 2, S.succeeded, AlarmKind.duplicate),
        *((status, 1, status, AlarmKind.contradiction) for status in (S.failed, S.dead, S.cancelled, S.revoked)),
        (S.skipped, 1, S.skipped, AlarmKind.contradiction),
    ],
)
def test_a_success_that_comes_late(
    status: EffectStatus, attempts: int, ends: EffectStatus, alarm: AlarmKind | None
) -> None:
    found = from_evidence(at(status, attempts), 1, Outcome.succeeded, only_unknown=True)
    assert (found.alarm.kind if found.alarm else None) == alarm
    assert ends_at(status, found.steps) is ends


def ends_at(status: EffectStatus, steps: tuple[object, ...]) -> EffectStatus:
    doubt = True
    for step in steps:
        assert is_legal(status, step.to, doubt=doubt and step.doubt)  # type: ignore[attr-defined]
        status, doubt = step.to, step.doubt  # type: ignore[attr-defined]
    return status


@pytest.mark.parametrize(
    ("outcome", "ends"), [(Outcome.refused, S.failed), (Outcome.not_applied, S.retry_wait), (Outcome.unknown, None)]
)
def test_another_answer_settles_doubt_only_where_no_other_try_is_unknown(
    outcome: Outcome, ends: EffectStatus | None
) -> None:
    alone = from_evidence(at(S.in_doubt, 1), 1, outcome, only_unknown=True)
    assert [step.to for step in alone.steps] == ([] if ends is None else [ends])
    assert from_evidence(at(S.in_doubt, 2), 1, outcome, only_unknown=False).steps == ()


@pytest.mark.parametrize("status", [status for status in S if status is not S.in_doubt])
@pytest.mark.parametrize("outcome", [Outcome.refused, Outcome.not_applied, Outcome.unknown])
def test_what_did_not_happen_late_changes_nothing_else(status: EffectStatus, outcome: Outcome) -> None:
    found = from_evidence(at(status, 1), 1, outcome, only_unknown=True)
    assert (found.steps, found.alarm) == ((), None)
