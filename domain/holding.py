"""What holds an effect back when it could leave: a pause, the circuit of its provider, or a limit. Rules of time alone.

A circuit opens after so many bad ends in a row. While it is open nothing leaves; then one call may try, and what
becomes of that closes it, or opens it again. The limit per minute is a bucket: what is not used is saved up, to a tenth
of a minute's worth, or to one call where that is more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from signoff.domain.effects import Outcome, Terms

SAFETY = timedelta(minutes=10)
"""A call that a pause holds back is woken when the pause ends; and looks by itself so much later."""
SHORTEST_WAIT_SECONDS = 1.0
MOST_AT_ONCE_SECONDS = 4.0
LONGEST_WAIT_SECONDS = 60.0
LOOKS_PER_SECOND = 10.0
"""About so many waiting calls look for a free place, however many wait."""
GOOD_ENDS = frozenset({Outcome.succeeded, Outcome.refused})
"""Ends which show that the provider answers: a definite refusal is an answer."""


class WaitsFor(StrEnum):
    pause = "pause"
    circuit = "circuit"
    limit = "limit"


@dataclass(frozen=True, slots=True)
class Held:
    """The effect may not leave now: it looks again at `until`."""

    until: datetime
    waits_for: WaitsFor
    reason: str


@dataclass(frozen=True, slots=True)
class Leaves:
    """The effect may leave. `failing`: its provider has had bad ends, so that a success is worth noting."""

    failing: bool


@dataclass(frozen=True, slots=True)
class Circuit:
    """Bad ends in a row; open if `opened_at`, until `open_until`: from then on one call at a time may try."""

    failures: int = 0
    opened_at: datetime | None = None
    open_until: datetime | None = None

    @property
    def is_failing(self) -> bool:
        return self.failures > 0 or self.opened_at is not None


CLOSED = Circuit()


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many calls might leave at `counted_at`."""

    tokens: float
    counted_at: datetime


def provider_of(terms: Terms, agent: str, tool: str) -> str:
    """Whose limits and circuit a call counts for."""
    return terms.provider or f"{agent}/{tool}"


def has_limits(terms: Terms) -> bool:
    return terms.max_concurrent is not None or terms.per_minute is not None


def is_good_end(outcome: Outcome) -> bool:
    return outcome in GOOD_ENDS


def let_pass(circuit: Circuit, terms: Terms, now: datetime) -> Circuit | None:
    """The circuit once a call has left; None if it may not. After the time that it is open the next one has to wait as
    long again for what becomes of this one."""
    if circuit.open_until is None:
        return circuit
    return replace(circuit, open_until=now + terms.circuit_open) if now >= circuit.open_until else None


def after_bad_end(circuit: Circuit, terms: Terms, now: datetime) -> Circuit:
    """The circuit after one bad end more. A tool that never opens it does not count."""
    if terms.circuit_failures == 0:
        return circuit
    failures = circuit.failures + 1
    if failures < terms.circuit_failures and circuit.opened_at is None:
        return replace(circuit, failures=failures)
    # A call that left before may end while the circuit is open already: that does not shorten anything.
    until = max(now + terms.circuit_open, circuit.open_until or now)
    return Circuit(failures, circuit.opened_at or now, until)


def most_at_once(per_minute: float) -> float:
    """What the bucket holds: so many may leave at once after a quiet time."""
    return max(1.0, per_minute / 10.0)


def refilled(bucket: Bucket | None, per_minute: float, now: datetime) -> Bucket:
    """The bucket as it is now; full if nobody has counted yet. A clock that goes back adds nothing."""
    most = most_at_once(per_minute)
    if bucket is None:
        return Bucket(most, now)
    elapsed = max(0.0, (now - bucket.counted_at).total_seconds())
    return Bucket(min(most, bucket.tokens + elapsed * per_minute / 60.0), max(now, bucket.counted_at))


def take_one(bucket: Bucket) -> Bucket | None:
    """The bucket without one call's worth; None if there is not so much in it."""
    return replace(bucket, tokens=bucket.tokens - 1.0) if bucket.tokens >= 1.0 else None


def seconds_until_one(bucket: Bucket, per_minute: float) -> float:
    return max(0.0, (1.0 - bucket.tokens) * 60.0 / per_minute)


def look_again_for_place(now: datetime, free_in: float, waiting: int, per_second: float, jitter: float) -> datetime:
    """When a call looks again that waits for a limit, of `waiting` in all: when a place is likely free, and spread, so
    that they do not all look at once, and not more often than places come free. `jitter` is from 0 to 1."""
    spread = max(MOST_AT_ONCE_SECONDS, waiting / max(LOOKS_PER_SECOND, 2.0 * per_second))
    seconds = SHORTEST_WAIT_SECONDS + free_in + jitter * spread
    return now + timedelta(seconds=min(LONGEST_WAIT_SECONDS, seconds) if free_in < LONGEST_WAIT_SECONDS else seconds)


def look_again_after_circuit(open_until: datetime, jitter: float) -> datetime:
    return open_until + timedelta(seconds=jitter * MOST_AT_ONCE_SECONDS)
