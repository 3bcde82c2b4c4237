"""A thousand parked jobs: nobody holds anything for them, and looking at them stays quick."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from signoff.domain.jobs import JobStatus
from signoff.infra.hints import NoHints
from signoff.infra.http.app import make_app
from signoff.infra.services import Services
from signoff.infra.settings import Settings
from signoff.infra.tokens import new_token
from tests.support.desk import APPROVE, REFUND, RITA, Desk, answer_of
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

MANY = 1000
MOST_BYTES = 10_000
MOST_SECONDS = 0.2
SIZE = """SELECT sum(pg_total_relation_size(c.oid)) AS bytes
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('signoff', 'langgraph') AND c.relkind = 'r'"""
OPEN_TRANSACTIONS = """SELECT query FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '2 seconds'"""


@pytest.fixture
async def client(calm_desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    token, hashed = new_token()
    async with calm_desk.store.begin() as tx:
        await tx.principals.add_token(uuid4(), RITA.name, hashed)
    services = Services(Settings(), calm_desk.store.pool, calm_desk.store, NoHints())
    transport = httpx.ASGITransport(make_app(services, asyncio.Event()))
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://signoff.test", headers=headers) as client:
        yield client


@pytest.mark.timeout(240)
async def test_a_thousand_parked_jobs_cost_little_and_hold_nothing(calm_desk: Desk, client: httpx.AsyncClient) -> None:
    desk = calm_desk
    before = await _bytes(desk)
    jobs = [await desk.submit(REFUND) for _ in range(MANY)]
    await eventually(lambda: _all_parked(desk), within_seconds=180, message=desk.story)

    each = (await _bytes(desk) - before) / MANY
    print(f"{each:.0f} bytes of Postgres for a parked job")
    assert each <= MOST_BYTES
    assert await desk.sql("SELECT 1 FROM signoff.jobs WHERE lease_owner IS NOT NULL OR lease_until IS NOT NULL") == []
    assert await eventually(lambda: desk.hints.queue_is_empty("support-desk"))
    assert await desk.sql(OPEN_TRANSACTIONS) == []
    (row,) = await desk.sql("SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()")
    assert row["n"] <= 30, "connections: the pools of a worker and a dispatcher, and not one for each job"

    for path in ("/v1/reviews?status=pending", "/v1/jobs?status=awaiting_review", f"/v1/jobs/{jobs[500]}"):
        assert await _quickest(client, path) < MOST_SECONDS, path

    review = await desk.pending_review(jobs[500])
    started = time.monotonic()
    await desk.decide(review.id, APPROVE)
    answer_of(await desk.until(jobs[500]))
    assert time.monotonic() - started < 2.0, "the others don't stand in its way"


async def _all_parked(desk: Desk) -> bool:
    (row,) = await desk.sql("SELECT count(*) AS n FROM signoff.jobs WHERE status = %s", JobStatus.awaiting_review)
    return bool(row["n"] == MANY)


async def _bytes(desk: Desk) -> int:
    # What superseded rows left is given back some day: it is no cost of a parked job.
    await desk.sql("VACUUM FULL")
    (row,) = await desk.sql(SIZE)
    return int(row["bytes"])


async def _quickest(client: httpx.AsyncClient, path: str) -> float:
    """Of a few, since others share the machine."""
    seconds = []
    for _ in range(5):
        started = time.monotonic()
        assert (await client.get(path)).status_code == 200
        seconds.append(time.monotonic() - started)
        await asyncio.sleep(0)
    return min(seconds)
