"""Endpoints over HTTP: for who operates; a secret is shown once, and to a person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.infra.tokens import new_token
from tests.support.api import Api, dump, open_api

pytestmark = pytest.mark.anyio

CREATE = {"name": "bot", "speaks_for": ["finance"]}
PATHS = ["/v1/endpoints", "/v1/endpoints/bot/rotate", "/v1/endpoints/bot/revoke"]


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


async def test_from_create_to_revoke(api: Api) -> None:
    created = await api.post("olga", "/v1/endpoints", {**CREATE, "dialect": "ag-ui"})
    assert (created.status_code, created.headers["location"]) == (201, "/v1/endpoints/bot")
    assert created.headers["cache-control"] == "no-store"
    assert created.json()["secret"].startswith("whsec_")
    rotated = await api.post("olga", "/v1/endpoints/bot/rotate", {"overlap_seconds": 60})
    assert rotated.json()["secret"] != created.json()["secret"]
    shown = (await api.get("olga", "/v1/endpoints/bot")).json()
    assert (shown["speaks_for"], shown["dialect"], shown["revoked_at"]) == (["finance"], "ag-ui", None)
    makers = [(one["created_by"], one["ends_at"] is None) for one in shown["secrets"]]
    assert makers == [("olga", True), ("olga", False)]
    assert "whsec_" not in (await api.get("olga", "/v1/endpoints")).text
    assert (await api.get("olga", "/v1/endpoints")).json() == {"endpoints": [shown]}
    assert (await api.post("olga", "/v1/endpoints/bot/revoke")).json()["revoked_at"] is not None
    again = await api.post("olga", "/v1/endpoints/bot/rotate", {})
    assert (again.status_code, again.json()["code"]) == (404, "endpoint_not_found")
    taken = await api.post("olga", "/v1/endpoints", CREATE)
    assert (taken.status_code, taken.json()["code"]) == (409, "endpoint_exists")


async def test_only_who_operates_manages_endpoints(api: Api, database_url: str) -> None:
    await api.post("olga", "/v1/endpoints", CREATE)
    before = dump(database_url)
    for who, expected in (("rita", 403), ("shop", 403), (None, 401)):
        answers = [await api.post(who, path, CREATE) for path in PATHS]
        answers += [await api.get(who, path) for path in ("/v1/endpoints", "/v1/endpoints/bot")]
        assert {answer.status_code for answer in answers} == {expected}
    assert dump(database_url) == before


async def test_a_service_that_operates_is_handed_no_secret(api: Api, database_url: str) -> None:
    await api.post("olga", "/v1/endpoints", CREATE)
    token, hashed = new_token()
    async with api.store.begin() as tx:
        await tx.principals.create(Principal("robot", PrincipalKind.service, rights=frozenset({Right.operate})))
        await tx.principals.add_token(uuid4(), "robot", hashed)
    api.tokens = {**api.tokens, "robot": token}
    before = dump(database_url)
    for path, body in ((PATHS[0], {**CREATE, "name": "other"}), (PATHS[1], {})):
        refused = await api.post("robot", path, body)
        assert (refused.status_code, refused.json()["code"]) == (403, "right_missing")
    assert dump(database_url) == before
    assert (await api.post("robot", PATHS[2])).status_code == 200


NO_ENDPOINTS: list[dict[str, Any]] = [
    {"name": "a/b"},
    {"name": None},
    {"name": ["bot"]},
    {"speaks_for": []},
    {"speaks_for": "finance"},
    {"speaks_for": [7]},
    {"speaks_for": ["a\0b"]},
    {"speaks_for": ["*", "finance"]},
    {"speaks_for": ["@"]},
    {"speaks_for": ["x"] * 201},
    {"dialect": "cobol"},
    {"dialect": {}},
    {"more": 1},
]


async def test_what_is_no_endpoint_is_refused(api: Api) -> None:
    for changes in NO_ENDPOINTS:
        refused = await api.post("olga", "/v1/endpoints", {**CREATE, **changes})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), changes
    assert (await api.get("olga", "/v1/endpoints")).json() == {"endpoints": []}


async def test_an_overlap_that_is_none_is_refused(api: Api, database_url: str) -> None:
    await api.post("olga", "/v1/endpoints", CREATE)
    before = dump(database_url)
    bodies: list[Any] = [[], {"overlap_seconds": -1}, {"overlap_seconds": 1.5}, {"overlap_seconds": 10**9}]
    for body in [*bodies, {"overlap_seconds": None}, {"overlap_seconds": True}, {"more": 1}]:
        refused = await api.post("olga", "/v1/endpoints/bot/rotate", body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request"), body
    assert dump(database_url) == before
