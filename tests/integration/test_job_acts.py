"""Cancelling and retrying jobs: with a reason, once for a request id, and on the record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support import parked as world
from tests.support.api import Api, open_api
from tests.support.parked import parked, submitted

pytestmark = pytest.mark.anyio

WHY = {"reason": "the customer called"}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as opened:
        yield opened


async def recorded(api: Api) -> list[tuple[Any, ...]]:
    async with api.store.connection() as conn:
        cursor = await conn.execute("SELECT act, actor, reason FROM signoff.operator_acts ORDER BY position")
        return [tuple(row.values()) for row in await cursor.fetchall()]


async def test_an_operator_cancels_with_a_reason_and_once(api: Api) -> None:
    job = await parked(api.store)
    path = f"/v1/jobs/{job.job_id}/cancel"
    for body in (None, {}, {"reason": None}, {"reason": " "}, {"why": "x"}):
        assert (await api.post("olga", path, body)).status_code == 422
    assert await recorded(api) == []
    for _ in range(2):
        answer = await api.post("olga", path, WHY, Idempotency_Key="k")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert await recorded(api) == [("job.cancel", "olga", WHY["reason"])]
    other = await submitted(api.store)
    mismatch = await api.post("olga", f"/v1/jobs/{other.id}/cancel", WHY, Idempotency_Key="k")
    assert mismatch.json()["code"] == "idempotency_mismatch"


async def test_a_producer_needs_no_reason_for_a_job_of_its_own(api: Api) -> None:
    job = await submitted(api.store)
    answer = await api.post("shop", f"/v1/jobs/{job.id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    other = await submitted(api.store)
    assert (await api.post("shop", f"/v1/jobs/{other.id}/cancel", WHY)).json()["status"] == "cancelled"
    assert await recorded(api) == []


async def test_a_retry_that_is_sent_twice_retries_once(api: Api) -> None:
    job = await submitted(api.store)
    await world.ended(api.store, job.id, well=False)
    path = f"/v1/jobs/{job.id}/retry"
    assert (await api.post("olga", path, {})).status_code == 422
    assert (await api.post("olga", path, WHY, Idempotency_Key="k")).json()["status"] == "queued"
    await world.ended(api.store, job.id, well=False)
    again = await api.post("olga", path, WHY, Idempotency_Key="k")
    assert (again.status_code, again.json()["status"]) == (200, "failed")
    assert await recorded(api) == [("job.retry", "olga", WHY["reason"])]
