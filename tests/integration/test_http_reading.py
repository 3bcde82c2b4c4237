"""Reading changes nothing; health; and the OpenAPI document against what is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from tests.support.api import Api, dump, open_api
from tests.support.parked import parked, refund

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


def routes(api: Api) -> list[tuple[str, str]]:
    """(path, method) of every route of ours."""
    found = iter_route_contexts(api.app.routes)
    ours = [route for route in found if isinstance(route.route, APIRoute)]
    return [(str(route.path), str(method)) for route in ours for method in route.methods or ()]


async def test_no_get_and_no_head_changes_anything(api: Api, database_url: str) -> None:
    job = await parked(api.store)
    await api.post("rita", f"/v1/reviews/{job.review_id}/decisions", {"decisions": [{"type": "approve"}]})
    await parked(api.store, refund(30, deadline_seconds=0.001))
    operation = (await api.get("olga", "/v1/effects")).json()["effects"][0]["operation_id"]
    known = {"job_id": job.job_id, "review_id": job.review_id, "operation_id": operation, "endpoint": "bot"}
    known |= {"subscription": "billing", "delegation_id": job.job_id, "standing_id": job.job_id}
    known |= {"alarm_id": job.job_id, "letter": f"run:{job.job_id}", "pause_id": job.job_id, "name": "worker-1"}
    before = dump(database_url)
    seen = set()
    for template, _ in routes(api):
        path = template.format(**known)
        for name in ("shop", "rita", "olga", "sam", None):
            for method in ("GET", "HEAD"):
                async with api.client(name) as client:
                    answer = await client.request(method, path, params={"limit": 1})
                assert answer.status_code < 500
                seen.add((method, answer.status_code))
    assert ("GET", 200) in seen
    assert dump(database_url) == before


async def test_no_route_but_reads_answers_to_get(api: Api) -> None:
    found = routes(api)
    assert [path for path, method in found if method == "GET" and path.rpartition("/")[2] in VERBS] == []
    assert {method for _, method in found} == {"GET", "POST", "DELETE"}


VERBS = {
    "cancel",
    "retry",
    "decisions",
    "replay",
    "resolve",
    "skip",
    "rotate",
    "revoke",
    "redeliver",
    "requeue",
    "discard",
    "probe",
    "confirm",
    "withdraw",
    "compensate",
    "execute-again",
    "plan",
    "apply",
    "acknowledge",
    "end",
    "close",
    "drain",
    "fork",
    "repair",
}


async def test_alive_and_ready(api: Api, database_url: str) -> None:
    assert (await api.get(None, "/readyz")).json() == {"status": "ready"}
    with psycopg.connect(database_url) as conn:
        conn.execute("UPDATE signoff.schema_version SET version_num = '0001'")
    outdated = await api.get(None, "/readyz")
    assert (outdated.status_code, outdated.json()["code"]) == (503, "schema_outdated")
    assert "retry-after" in outdated.headers
    await api.services.pool.close()
    away = await api.get(None, "/readyz")
    assert (away.status_code, away.json()["code"]) == (503, "store_unavailable")
    assert (await api.get(None, "/healthz")).json() == {"status": "ok"}
    jobs = await api.get("shop", "/v1/jobs")
    assert (jobs.status_code, jobs.json()["code"]) == (503, "store_unavailable")


async def test_the_document_tells_of_every_route_with_its_refusals(api: Api) -> None:
    document: dict[str, Any] = (await api.get(None, "/v1/openapi.json")).json()
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert described == {(path, method.lower()) for path, method in routes(api)}
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            refusals = {status: answer for status, answer in operation["responses"].items() if int(status) >= 400}
            assert all(list(answer["content"]) == ["application/problem+json"] for answer in refusals.values()), path
            secured = path.startswith("/v1/") and "webhooks" not in path
            assert operation.get("security", []) == ([{"bearer": []}] if secured else []), path
            assert ("401" in refusals) == path.startswith("/v1/"), path
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


async def test_every_post_with_a_body_says_what_it_takes(api: Api) -> None:
    document: dict[str, Any] = (await api.get(None, "/v1/openapi.json")).json()
    without = {
        path
        for path, methods in document["paths"].items()
        if "post" in methods and "application/json" not in methods["post"].get("requestBody", {}).get("content", {})
    }
    revoke = "/v1/endpoints/{endpoint}/revoke"
    enable = "/v1/subscriptions/{subscription}/enable"
    release = "/v1/reviews/{review_id}/release"
    assert without == {enable, release, revoke}
