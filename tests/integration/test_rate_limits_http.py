"""Rate limits through the real application: what is refused has changed nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from signoff.infra.settings import Settings
from tests.support.api import Api, dump, open_api
from tests.support.parked import parked

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        settings = Settings(http_requests_per_minute=2, http_failed_logins_per_minute=2)
        yield Api(replace(api.services, settings=settings), api.tokens)


async def test_a_decision_that_comes_too_soon_changes_nothing_and_may_be_sent_again(
    api: Api, database_url: str
) -> None:
    job = await parked(api.store)
    path, body = f"/v1/reviews/{job.review_id}/decisions", {"decisions": [{"type": "approve"}]}
    statuses = [(await api.get("rita", "/v1/jobs")).status_code for _ in range(6)]
    assert (statuses[0], statuses[-1]) == (200, 429)
    before = dump(database_url)
    refused = await api.post("rita", path, body)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["retry-after"] == str(refused.json()["retry_after_seconds"])
    assert dump(database_url) == before
    assert (await api.post("ravi", path, body)).status_code == 200


async def test_guesses_are_stopped_before_the_database_is_asked(api: Api) -> None:
    assert (await api.get("rita", "/v1/jobs")).status_code == 200
    api.tokens = {**api.tokens, "guess": "sgn_guess"}
    statuses = [(await api.get("guess", "/v1/jobs")).status_code for _ in range(2)]
    assert 429 in [*statuses, (await api.get("guess", "/v1/jobs")).status_code]
    assert (await api.get("rita", "/v1/jobs")).status_code == 200
    assert (await api.get(None, "/healthz")).status_code == 200


async def test_every_route_but_health_tells_of_it(api: Api) -> None:
    document: dict[str, Any] = (await api.get(None, "/v1/openapi.json")).json()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert ("429" in operation["responses"]) == path.startswith("/v1/"), path
