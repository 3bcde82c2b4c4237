"""When a signature's age is judged by the queue's word for when it came, and the order of a batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from signoff.domain.events import Event
from signoff.infra.postgres.outbox import in_order_of_their_jobs
from signoff.infra.redis.taking import LONGEST_WAIT, arrival, judged_at

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("arrived", "believed"),
    [
        (NOW, True),
        (NOW - LONGEST_WAIT, True),
        (NOW - LONGEST_WAIT - SECOND, False),
        (NOW + SECOND, False),
        (None, False),
    ],
)
def test_the_time_of_arrival_is_believed_within_limits(arrived: datetime | None, believed: bool) -> None:
    assert judged_at(arrived, NOW) == (arrived if believed else NOW)


def test_the_longest_wait_is_far_below_how_long_delivery_ids_are_kept() -> None:
    assert timedelta(days=1) > LONGEST_WAIT


@pytest.mark.parametrize("entry_id", ["18446744073709551615-0", "", "x-1", "-1"])
def test_an_entry_id_that_is_no_time_has_no_arrival(entry_id: str) -> None:
    assert arrival(entry_id) is None


def test_an_entry_id_tells_when_it_came() -> None:
    assert arrival("1893456000000-3") == NOW


def test_each_jobs_events_take_the_places_of_that_job_by_sequence() -> None:
    one, two = uuid4(), uuid4()
    batch = [_event(one, 2), _event(None, 0, "a"), _event(two, 1), _event(one, 3), _event(None, 0, "b"), _event(one, 1)]

    ordered = in_order_of_their_jobs(batch)

    assert [(event.job_id, event.sequence) for event in ordered] == [
        (one, 1),
        (None, 0),
        (two, 1),
        (one, 2),
        (None, 0),
        (one, 3),
    ]
    assert [event.subject for event in ordered if event.job_id is None] == ["a", "b"]


def _event(job_id: UUID | None, sequence: int, subject: str = "s") -> Event:
    return Event(uuid4(), "t", subject, "test", {}, job_id, sequence, NOW, "1-1")
