"""Every line of a run says which run it is of, whoever writes it; and every line of an attempt which attempt."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog
from langchain_core.tools import tool

from signoff.infra.logs import configure_logs
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers import effect
from signoff.workers.faults import NoFaults, Point
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import AGENT
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

# As libraries have them, which know nothing of runs.
library = logging.getLogger("some.library")


@effect("opaque")
@tool
async def pay(to: str) -> str:
    """Pays."""
    library.warning("paying")
    await asyncio.create_task(_elsewhere())
    structlog.get_logger("ours").info("paid")
    return "paid"


@effect("opaque")
@tool
def post(to: str) -> str:
    """Posts, in a thread."""
    library.warning("posting")
    return "posted"


async def _elsewhere() -> None:
    library.warning("in a task of its own")


class TakenOver(NoFaults):
    """Another worker has the job by the time that this one has something to write."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def reach(self, point: Point) -> None:
        if point is Point.before_finish:
            async with self._store.connection() as conn:
                await conn.execute("UPDATE signoff.jobs SET fence = fence + 1")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return {line["event"]: line for line in written}


async def test_ids_of_run_and_attempt(store: PostgresStore, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Settings())
    both = calling(("pay", {"to": "ada"}), ("post", {"to": "bob"}))
    shop = Workshop(store, [pay, post], both, RuntimeError("no answer"))
    job = await shop.submit()
    await shop.run(job.id)
    library.warning("afterwards")

    found = lines(capsys)
    run = {"job_id": str(job.id), "thread_id": job.thread_id, "agent": AGENT, "worker": "worker-1", "fence": 1}
    operations = {one.tool: one.operation_id for one in await shop.effects(job.id)}
    told = {"paying": "pay", "in a task of its own": "pay", "paid": "pay", "posting": "post"}
    for event, name in told.items():
        attempt = {"operation_id": operations[name], "attempt": 1}
        assert {**found[event], **run, **attempt} == found[event], event
    assert {**found["run failed"], **run} == found["run failed"]
    assert "operation_id" not in found["run failed"]
    assert "job_id" not in found["afterwards"]


async def test_a_run_that_the_fence_refuses_is_counted(store: PostgresStore) -> None:
    shop = Workshop(store, [pay], "Done.", faults=TakenOver(store))
    job = await shop.submit()
    await shop.run(job.id)
    assert await shop.sql("SELECT name, label, value FROM signoff.tallies") == [
        {"name": "fence_rejections", "label": AGENT, "value": 1}
    ]
