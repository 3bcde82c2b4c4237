"""R19: a run is lost after the model has answered, and the model answers otherwise when it is asked again.

What runs is what a person has seen; and what they have seen is not asked again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from signoff.domain.jobs import JobStatus
from signoff.domain.policy import review
from signoff.infra.postgres.store import PostgresStore
from signoff.workers.faults import Point
from tests.support.api import open_store
from tests.support.judging_once import judge_ledger, require_none
from tests.support.models import calling
from tests.support.till import Shop, Till

pytestmark = pytest.mark.anyio

APPROVE = {"type": "approve"}
BEFORE_THE_REVIEW = (Point.before_park, Point.before_flush)
AFTER_THE_DECISION = (Point.before_dispatch, Point.before_flush, Point.before_finish)


class FailsOnce:
    """Faults that fail the run at `point`, once it is armed."""

    def __init__(self, point: Point, *, armed: bool = True) -> None:
        self._point = point
        self.armed = armed

    async def reach(self, point: Point) -> None:
        if self.armed and point is self._point:
            self.armed = False
            raise RuntimeError("the run is lost")


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


@pytest.mark.parametrize("point", BEFORE_THE_REVIEW)
async def test_what_runs_is_what_was_shown(store: PostgresStore, point: Point) -> None:
    till = Till()
    answers = (calling(("pay", {"to": "ada", "amount": 30})), calling(("pay", {"to": "ada", "amount": 50})), "Done.")
    shop = Shop(store, till, [review("*", reviewers=["finance"])], *answers, faults=FailsOnce(point))
    job = await shop.open()
    await shop.hurry()
    parked = await shop.run(job.id)
    assert parked.status is JobStatus.awaiting_review
    shown = (await shop.item(job.id)).args
    await shop.say(job.id, APPROVE)
    ended = await shop.run(job.id)
    assert ended.status is JobStatus.succeeded, ended.error_message
    assert shown is not None
    assert till.paid == [("ada", shown["amount"])] == [("ada", 50)]
    async with store.connection() as conn:
        require_none(await judge_ledger(conn))


@pytest.mark.parametrize("point", AFTER_THE_DECISION)
async def test_what_was_decided_is_not_asked_of_the_model_again(store: PostgresStore, point: Point) -> None:
    till, faults = Till(), FailsOnce(point, armed=False)
    answers = (calling(("pay", {"to": "ada", "amount": 30})), "Done.", "Done, I think.")
    shop = Shop(store, till, [review("*", reviewers=["finance"])], *answers, faults=faults)
    job = await shop.open()
    await shop.say(job.id, APPROVE)
    faults.armed = True
    await shop.run(job.id)
    await shop.hurry()
    ended = await shop.run(job.id)
    assert ended.status is JobStatus.succeeded, ended.error_message
    assert till.paid == [("ada", 30)]
    async with store.connection() as conn:
        require_none(await judge_ledger(conn))
