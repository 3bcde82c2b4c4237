"""When a sending is tried again, and when it is given up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from signoff.domain.sendings import (
    DELAYS,
    GIVEN_UP_AFTER,
    LONGEST_WAIT,
    MOST_TRIES,
    SHORTEST_WAIT,
    Meaning,
    Next,
    Reply,
    SendingStatus,
    after,
    meaning_of,
)
from signoff.infra.retry_after import read_retry_after

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def then(reply: Reply, *, tries: int = 1, waited: timedelta = timedelta(), jitter: float = 0.5) -> Next:
    return after(reply, tries=tries, waited=waited, jitter=jitter)


def failed(status: int | None = 500, retry_after: timedelta | None = None) -> Reply:
    return Reply(Meaning.failed, status, "no", retry_after)


def test_about_75_hours() -> None:
    delays = [then(failed(), tries=tries).delay for tries in range(1, MOST_TRIES)]
    assert delays == list(DELAYS)
    assert timedelta(hours=75) < sum(delays, timedelta()) < timedelta(hours=76)
    assert then(failed(), tries=MOST_TRIES).to is SendingStatus.dead


@pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1)])
def test_jitter(jitter: float, share: float) -> None:
    assert then(failed(), tries=4, jitter=jitter).delay == timedelta(hours=2) * share


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        *((200, Meaning.taken), (204, Meaning.taken), (299, Meaning.taken), (199, Meaning.failed)),
        *((301, Meaning.failed), (307, Meaning.failed), (404, Meaning.failed), (429, Meaning.failed)),
        *((410, Meaning.gone), (500, Meaning.failed), (503, Meaning.failed)),
    ],
)
def test_2xx_alone_is_success(status: int, meaning: Meaning) -> None:
    assert meaning_of(status) is meaning


def test_what_ends_at_once() -> None:
    assert then(Reply(Meaning.taken, 200)).to is SendingStatus.sent
    assert then(Reply(Meaning.gone, 410)).to is SendingStatus.dead
    assert then(Reply(Meaning.refused, 550)).to is SendingStatus.dead


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_that_says_when(status: int) -> None:
    asked = timedelta(minutes=2)
    assert then(failed(status, asked), tries=9) == Next(SendingStatus.pending, asked, counts=False)
    assert then(failed(status, asked), tries=MOST_TRIES).to is SendingStatus.pending
    assert then(failed(status, timedelta(days=9))).delay == LONGEST_WAIT
    assert then(failed(status, timedelta())).delay == SHORTEST_WAIT
    assert then(failed(status, asked), waited=GIVEN_UP_AFTER).to is SendingStatus.dead


def test_who_may_not_say_when() -> None:
    assert then(failed(500, timedelta(minutes=2))) == Next(SendingStatus.pending, DELAYS[0])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *((None, None), ("0", 0), (" 120 ", 120), ("Tue, 01 Jan 2030 12:01:00 GMT", 60), ("", None), ("-5", None)),
        *(("Tue, 01 Jan 2030 11:00:00 GMT", 0), ("soon", None), ("1.5", None), ("²", None), ("9" * 20, None)),
    ],
)
def test_retry_after(header: str | None, seconds: int | None) -> None:
    assert read_retry_after(header, NOW) == (None if seconds is None else timedelta(seconds=seconds))
