"""Bad input of every kind: a named refusal, never an error of ours, and nothing changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.api import Api, dump, open_api
from tests.support.parked import AGENT, Parked, parked

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
JOB = {"agent": AGENT, "input": "hello"}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


def code(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert {"type", "title", "status", "detail", "code"} <= set(body)
    assert body["status"] == response.status_code
    return response.status_code, body["code"]


async def send(api: Api, path: str, content: Any, **headers: str) -> httpx.Response:
    who = "rita" if "reviews" in path else "olga" if "effects" in path else "shop"
    async with api.client(who) as client:
        return await client.post(path, content=content, headers={**JSON, **headers})


def paths(job: Parked) -> list[str]:
    return ["/v1/jobs", f"/v1/reviews/{job.review_id}/decisions"] + [
        f"/v1/effects/op_x/{verb}" for verb in ("replay", "resolve", "skip")
    ]


NOT_JSON = [
    b"",
    b"{",
    b"nonsense",
    b'{"agent": "desk", "agent": "desk", "input": "x"}',
    b'{"agent": NaN}',
    b'{"agent": Infinity}',
    b'{"agent": 1e999}',
    b"\xff\xfe",
    '{"agent": "desk", "input": "x"}'.encode("utf-16"),
    b"[" * 50_000,
    b"9" * 5000,
]
NOT_OBJECTS: list[Any] = [None, 7, "text", [], [{}], {}, {"": ""}, {"\ud800": "\ud800"}, {"a\0": 1}]


async def test_what_is_not_json_is_malformed(api: Api, database_url: str) -> None:
    job = await parked(api.store)
    before = dump(database_url)
    for path in paths(job):
        for raw in NOT_JSON:
            assert code(await send(api, path, raw)) == (400, "malformed_json"), raw[:40]
    assert dump(database_url) == before


async def test_what_is_not_the_object_that_is_wanted_is_invalid(api: Api, database_url: str) -> None:
    job = await parked(api.store)
    before = dump(database_url)
    for path in paths(job):
        for value in NOT_OBJECTS:
            assert code(await send(api, path, json.dumps(value))) == (422, "invalid_request"), value
    assert dump(database_url) == before


BAD_JOBS: list[dict[str, Any]] = [
    {"agent": 7},
    {"agent": ""},
    {"agent": "x" * 201},
    {"agent": "a\0b"},
    {"input": " "},
    {"input": "\ud800"},
    {"input": "x" * 200_001},
    {"thread_id": ""},
    {"thread_id": 7},
    {"labels": []},
    {"labels": {"a": 1}},
    {"labels": {"": "x"}},
    {"labels": {"a\0": "x"}},
    {"labels": {str(n): "x" for n in range(51)}},
    {"cancel_pending": 1},
    {"cancel_pending": None},
    {"idempotency_key": ""},
    {"unknown": 1},
]


async def test_bad_fields_of_a_job(api: Api, database_url: str) -> None:
    before = dump(database_url)
    for fields in BAD_JOBS:
        refused = await send(api, "/v1/jobs", json.dumps({**JOB, **fields}))
        assert code(refused) == (422, "invalid_request"), fields
    assert dump(database_url) == before


BAD_DECISIONS: list[Any] = [
    {"type": "edit", "edited_action": {"name": "\ud800", "args": {}}},
    {"type": "approve", "tool_call_id": "x" * 20_000},
    {"type": "\ud800"},
    {"type": "x" * 100_000},
    {"type": "approve", "item_id": "\ud800"},
    {"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 10**400}}},
    {"type": "edit", "edited_action": {"name": "refund", "args": {"order": "A", "amount": True}}},
    {"type": "edit", "edited_action": {"name": "refund", "args": {"order": "A", "amount": 1.5}}},
]


async def test_bad_decisions(api: Api, database_url: str) -> None:
    job = await parked(api.store)
    before = dump(database_url)
    for decision in BAD_DECISIONS:
        refused = await send(api, paths(job)[1], json.dumps({"decisions": [decision]}))
        assert code(refused)[0] == 422, decision
        assert len(refused.content) < 30_000
    assert dump(database_url) == before


async def test_bad_paths_and_queries(api: Api) -> None:
    for path in ("/v1/jobs/7", "/v1/jobs/%00", "/v1/reviews/x", "/v1/effects/%00", "/v1/effects/a%20b"):
        assert code(await api.get("olga", path)) == (422, "invalid_request"), path
    for query in (
        "jobs?status=asleep",
        "jobs?limit=0",
        "jobs?limit=201",
        "jobs?limit=many",
        "jobs?limit=99999999999999999999",
        "jobs?cursor=x",
        "jobs?cursor=",
        "jobs?cursor=MjAyNi0wMS0wMVQwMDowMDowMCB4",
        "jobs?agent=%00",
        "jobs?thread_id=%00",
        "jobs?submitted_by=a%00",
        "reviews?status=open",
        "reviews?cursor=%ff",
        "effects?job=7",
        "effects?tool=%00",
        "effects?status=lost",
        "effects?cursor=" + "A" * 5000,
        "events?after=x",
        "events?after=1-",
        "events?after=-1-0",
        "events?after=18446744073709551616-0",
        "events?after=0-9223372036854775808",
        "events?after=%D9%A1-0",
        "events?limit=0",
        "events?limit=1001",
    ):
        assert code(await api.get("olga", f"/v1/{query}")) == (422, "invalid_request"), query
    assert (await api.get("olga", "/v1/events?after=18446744073709551615-9223372036854775807")).status_code == 200
    assert (await api.get("olga", "/v1/jobs?agent=%ff%fe")).json()["jobs"] == []


async def test_a_cursor_of_another_list_is_no_error_of_ours(api: Api) -> None:
    for _ in range(2):
        await parked(api.store)
    cursor = (await api.get("olga", "/v1/jobs", limit=1)).json()["next"]
    for name in ("jobs", "reviews", "effects"):
        assert (await api.get("olga", f"/v1/{name}", cursor=cursor)).status_code == 200


async def test_paths_and_methods_that_are_not_there(api: Api) -> None:
    assert code(await api.get("olga", "/v1/nothing")) == (404, "no_such_path")
    assert code(await api.get("olga", "/v1/jobs/")) == (404, "no_such_path")
    async with api.client("olga") as client:
        refused = await client.delete(f"/v1/jobs/{uuid4()}")
        assert code(refused) == (405, "method_not_allowed")
        assert refused.headers["allow"] == "GET"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp", "json"])
async def test_other_media_types(api: Api, kind: str) -> None:
    refused = await send(api, "/v1/jobs", json.dumps(JOB), **{"content-type": kind})
    assert code(refused) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/cloudevents+json"]
)
async def test_json_by_its_other_names(api: Api, kind: str) -> None:
    assert (await send(api, "/v1/jobs", json.dumps(JOB), **{"content-type": kind})).status_code == 201


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer sgn_wrong", "Bearer \xff", "sgn_x"])
async def test_bad_tokens(api: Api, header: str) -> None:
    async with api.client(None) as client:
        for path in ("/v1/jobs", "/v1/reviews", "/v1/effects", "/v1/events"):
            refused = await client.get(path, headers=[(b"authorization", header.encode("latin-1"))])
            assert code(refused) == (401, "token_invalid")
            assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_a_revoked_token_and_a_revoked_person(api: Api) -> None:
    async with api.store.begin() as tx:
        (token,) = [token for token in await tx.principals.tokens() if token["principal"] == "rita"]
        await tx.principals.revoke_token(token["id"])
        await tx.principals.revoke("olga")
    for name in ("rita", "olga"):
        assert code(await api.get(name, "/v1/jobs")) == (401, "token_invalid")


async def test_who_asks_is_known_before_the_body_is_read(api: Api) -> None:
    async with api.client(None) as client:
        assert code(await client.post("/v1/jobs", content=b"{", headers=JSON)) == (401, "token_invalid")


async def test_a_body_that_is_too_large(api: Api, database_url: str) -> None:
    before = dump(database_url)
    most = api.services.settings.http_max_body_bytes
    whole = json.dumps({**JOB, "input": "x" * most}).encode()

    async def chunked() -> AsyncIterator[bytes]:
        for start in range(0, len(whole), 65536):
            yield whole[start : start + 65536]

    assert code(await send(api, "/v1/jobs", whole)) == (413, "body_too_large")
    assert code(await send(api, "/v1/jobs", chunked())) == (413, "body_too_large")
    async with api.client(None) as client:
        for path in ("/v1/webhooks/bot/decisions", "/v1/nothing"):
            assert code(await client.post(path, content=whole, headers=JSON)) == (413, "body_too_large")
    assert dump(database_url) == before
