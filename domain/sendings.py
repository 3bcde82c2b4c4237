"""What becomes of one event on its way out: when it is tried again, and what an answer means. Pure.

At least once: a sending ends by an answer, or after about 75 hours without one; then it is dead, and operators see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

# Before each further try; together 75 hours and 35 minutes.
DELAYS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
MOST_TRIES = len(DELAYS) + 1
GIVEN_UP_AFTER = timedelta(hours=80)
LONGEST_WAIT = timedelta(hours=24)
SHORTEST_WAIT = DELAYS[0]
JITTER = 0.2
ASK_LATER = frozenset({429, 503})


class SendingStatus(StrEnum):
    pending = "pending"
    sent = "sent"
    dead = "dead"
    discarded = "discarded"  # was dead, and an operator has given it up


class Meaning(StrEnum):
    """What an attempt came to."""

    taken = "taken"
    failed = "failed"  # worth another try
    refused = "refused"  # this one will never be taken
    gone = "gone"  # nothing will ever be taken there again


@dataclass(frozen=True, slots=True)
class Reply:
    """How an attempt ended: by an answer with a status, or without one. `error` is in our own words."""

    meaning: Meaning
    status: int | None = None
    error: str | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Next:
    """Where a sending goes from an attempt. `counts` is False where the receiver named the time of the next one."""

    to: SendingStatus
    delay: timedelta = timedelta()
    counts: bool = True


def meaning_of(status: int) -> Meaning:
    """2xx alone is success; a redirect is not followed, so it is a failure like any other."""
    if 200 <= status < 300:
        return Meaning.taken
    return Meaning.gone if status == 410 else Meaning.failed


def after(reply: Reply, *, tries: int, waited: timedelta, jitter: float) -> Next:
    """`tries` with this one; `waited` since it was asked for; `jitter` from 0 to 1, so that many don't come at once."""
    if reply.meaning is Meaning.taken:
        return Next(SendingStatus.sent)
    if reply.meaning is not Meaning.failed:
        return Next(SendingStatus.dead)
    if reply.retry_after is not None and reply.status in ASK_LATER:
        delay = min(max(reply.retry_after, SHORTEST_WAIT), LONGEST_WAIT)
        # The schedule is not used up by a receiver that says when to come back; the time still is.
        late = waited + delay > GIVEN_UP_AFTER
        return Next(SendingStatus.dead) if late else Next(SendingStatus.pending, delay, counts=False)
    if tries >= MOST_TRIES:
        return Next(SendingStatus.dead)
    return Next(SendingStatus.pending, DELAYS[tries - 1] * (1 + JITTER * (jitter - 0.5)))
