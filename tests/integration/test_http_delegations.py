"""Delegations over HTTP: everybody gives their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.api import Api, open_api
from tests.support.parked import parked

pytestmark = pytest.mark.anyio

PATH = "/v1/delegations"
BODY = {"to": "sam", "tools": ["refund"], "when": "args.amount <= 30", "seconds": 3600}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


async def listed(api: Api, who: str) -> list[dict[str, Any]]:
    delegations: list[dict[str, Any]] = (await api.get(who, PATH)).json()["delegations"]
    return delegations


async def end(api: Api, who: str, delegation_id: str) -> httpx.Response:
    async with api.client(who) as client:
        return await client.delete(f"{PATH}/{delegation_id}")


async def test_given_used_and_ended(api: Api) -> None:
    job, second = await parked(api.store), await parked(api.store)
    given = await api.post("rita", PATH, BODY)
    view = given.json()
    assert (given.status_code, view["from"], view["to"], view["state"]) == (201, "rita", "sam", "active")
    assert (view["tools"], view["when"], view["created_by"]) == (["refund"], "args.amount <= 30", "rita")
    for who in ("rita", "sam", "olga"):
        assert await listed(api, who) == [view]
    for who in ("ravi", "shop"):
        assert await listed(api, who) == []
    approve = {"decisions": [{"type": "approve"}]}
    assert (await api.post("sam", f"/v1/reviews/{job.review_id}/decisions", approve)).status_code == 200
    refusals = [(await end(api, who, view["id"])).json()["code"] for who in ("sam", "ravi")]
    assert refusals == ["right_missing", "grant_not_found"]
    assert [(await end(api, "rita", view["id"])).status_code for _ in range(2)] == [204, 204]
    (ended,) = await listed(api, "rita")
    assert (ended["state"], ended["revoked_by"]) == ("revoked", "rita")
    assert (await api.post("sam", f"/v1/reviews/{second.review_id}/decisions", approve)).status_code == 404


async def test_an_operator_ends_it_and_pages_go_on(api: Api) -> None:
    ids = [(await api.post("rita", PATH, BODY)).json()["id"] for _ in range(3)]
    assert (await end(api, "olga", ids[0])).status_code == 204
    first = (await api.get("olga", PATH, limit=2)).json()
    rest = (await api.get("olga", PATH, limit=2, cursor=first["next"])).json()
    assert [one["id"] for one in first["delegations"] + rest["delegations"]] == ids[::-1]


async def test_who_may_not(api: Api) -> None:
    async def answer(who: str, **changes: Any) -> tuple[int, str]:
        response = await api.post(who, PATH, {**BODY, **changes})
        return response.status_code, response.json()["code"]

    for who in ("olga", "shop"):
        assert await answer(who) == (403, "right_missing")
    for to in ("rita", "olga", "shop"):
        assert await answer("rita", to=to) == (422, "delegation_refused")
    assert await answer("rita", to="nobody") == (404, "principal_not_found")
    assert await listed(api, "olga") == []


BAD: list[Any] = [
    [],
    {},
    {"to": "sam"},
    {**BODY, "from": "ravi"},
    {**BODY, "to": 7},
    {**BODY, "to": "a\x00"},
    {**BODY, "tools": "refund"},
    {**BODY, "tools": []},
    {**BODY, "tools": [7]},
    {**BODY, "tools": ["[ab]"]},
    {**BODY, "tools": ["x\x00"]},
    {**BODY, "tools": ["x" * 201]},
    {**BODY, "when": "args."},
    {**BODY, "when": 7},
    {**BODY, "when": "args.a == '\x00'"},
    {**BODY, "seconds": None},
    {**BODY, "seconds": 0},
    {**BODY, "seconds": True},
    {**BODY, "seconds": 10**400},
    {**BODY, "seconds": 1e300},
    {**BODY, "seconds": 367 * 86400},
    {**BODY, "expires_at": "2099-01-01T00:00:00Z"},
    {**BODY, "seconds": None, "expires_at": "2001-01-01T00:00:00Z"},
    {**BODY, "seconds": None, "expires_at": "2099-01-01T00:00:00"},
    {**BODY, "seconds": None, "expires_at": "0001-01-01T00:00:00+23:59"},
    {**BODY, "seconds": None, "expires_at": "soon"},
    {**BODY, "seconds": None, "expires_at": 7},
]


async def test_what_is_malformed_is_refused(api: Api) -> None:
    for body in BAD:
        response = await api.post("rita", PATH, body)
        assert (response.status_code, response.json()["code"]) == (422, "invalid_request"), body
    assert await listed(api, "olga") == []
