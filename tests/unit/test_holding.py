"""The rules of circuits and limits, as pure functions of time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.effects import Outcome, Terms
from signoff.domain.holding import (
    CLOSED,
    LONGEST_WAIT_SECONDS,
    LOOKS_PER_SECOND,
    SHORTEST_WAIT_SECONDS,
    Bucket,
    Circuit,
    after_bad_end,
    has_limits,
    is_good_end,
    let_pass,
    look_again_for_place,
    most_at_once,
    provider_of,
    refilled,
    seconds_until_one,
    take_one,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = timedelta(seconds=30)
TERMS = Terms(circuit_failures=3, circuit_open=OPEN)
SECOND = timedelta(seconds=1)


def failed(times: int, terms: Terms = TERMS, at: datetime = NOW) -> Circuit:
    circuit = CLOSED
    for _ in range(times):
        circuit = after_bad_end(circuit, terms, at)
    return circuit


def test_a_circuit_opens_at_the_number_of_bad_ends_and_not_before() -> None:
    assert failed(2) == Circuit(2)
    assert let_pass(failed(2), TERMS, NOW) == failed(2)
    opened = failed(3)
    assert (opened.opened_at, opened.open_until) == (NOW, NOW + OPEN)
    assert let_pass(opened, TERMS, NOW + OPEN - SECOND) is None


def test_after_its_time_one_may_try_and_the_next_has_to_wait_as_long_again() -> None:
    then = NOW + OPEN
    trying = let_pass(failed(3), TERMS, then)
    assert trying is not None
    assert trying.open_until == then + OPEN
    assert let_pass(trying, TERMS, then + SECOND) is None
    again = after_bad_end(trying, TERMS, then + 2 * SECOND)
    assert (again.opened_at, again.open_until, again.failures) == (NOW, then + 2 * SECOND + OPEN, 4)


def test_a_straggler_does_not_shorten_the_time() -> None:
    opened = replace(failed(3), open_until=NOW + 10 * OPEN)
    assert after_bad_end(opened, TERMS, NOW + SECOND).open_until == NOW + 10 * OPEN


def test_a_tool_that_never_opens_it_does_not_count() -> None:
    never = replace(TERMS, circuit_failures=0)
    assert failed(100, never) == CLOSED
    assert after_bad_end(failed(3), never, NOW + SECOND) == failed(3)


def test_a_definite_refusal_is_an_answer() -> None:
    good = {outcome for outcome in Outcome if is_good_end(outcome)}
    assert good == {Outcome.succeeded, Outcome.refused}


def test_names() -> None:
    assert provider_of(Terms(), "a", "pay") == "a/pay"
    assert provider_of(Terms(provider="bank"), "a", "pay") == "bank"
    assert [has_limits(terms) for terms in (Terms(), Terms(max_concurrent=1), Terms(per_minute=1.0))] == [0, 1, 1]


def test_a_clock_that_goes_back_adds_nothing_and_is_not_counted_twice() -> None:
    bucket = refilled(Bucket(0.0, NOW), 60.0, NOW - timedelta(hours=1))
    assert bucket == Bucket(0.0, NOW)
    assert refilled(bucket, 60.0, NOW).tokens == 0.0


@given(
    per_minute=st.floats(min_value=0.05, max_value=10_000),
    gaps=st.lists(st.floats(min_value=0, max_value=90), min_size=1, max_size=150),
)
def test_no_minute_has_more_than_the_limit_and_what_may_leave_at_once(per_minute: float, gaps: list[float]) -> None:
    bucket: Bucket | None = None
    now, left = NOW, list[datetime]()
    for gap in gaps:
        now += timedelta(seconds=gap)
        bucket = refilled(bucket, per_minute, now)
        if (taken := take_one(bucket)) is not None:
            bucket = taken
            left.append(now)
    most = per_minute + most_at_once(per_minute) + 1e-6
    for first in left:
        assert sum(first <= at < first + timedelta(minutes=1) for at in left) <= most


@given(tokens=st.floats(min_value=0, max_value=0.999), per_minute=st.floats(min_value=0.1, max_value=10_000))
def test_so_much_later_there_is_one(tokens: float, per_minute: float) -> None:
    bucket = Bucket(tokens, NOW)
    later = NOW + timedelta(seconds=seconds_until_one(bucket, per_minute)) + timedelta(milliseconds=1)
    assert take_one(bucket) is None
    assert refilled(bucket, per_minute, later).tokens >= min(1.0, most_at_once(per_minute)) - 1e-6


@given(
    free_in=st.floats(min_value=0, max_value=600),
    waiting=st.integers(min_value=1, max_value=100_000),
    per_second=st.floats(min_value=0, max_value=1000),
    jitter=st.floats(min_value=0, max_value=1),
)
def test_nobody_looks_at_once_or_much_too_late(free_in: float, waiting: int, per_second: float, jitter: float) -> None:
    seconds = (look_again_for_place(NOW, free_in, waiting, per_second, jitter) - NOW).total_seconds()
    assert seconds >= SHORTEST_WAIT_SECONDS
    assert seconds >= min(free_in, LONGEST_WAIT_SECONDS) - 1e-3
    assert seconds <= free_in + LONGEST_WAIT_SECONDS + 1e-3 or free_in >= LONGEST_WAIT_SECONDS


@pytest.mark.parametrize("waiting", [1, 10, 400])
def test_those_who_wait_do_not_all_look_at_the_same_time(waiting: int) -> None:
    looks = [look_again_for_place(NOW, 0.0, waiting, 0.0, number / waiting) for number in range(waiting)]
    spread = (max(looks) - min(looks)).total_seconds()
    assert waiting == 1 or waiting / max(spread, 0.001) <= LOOKS_PER_SECOND * 1.1
