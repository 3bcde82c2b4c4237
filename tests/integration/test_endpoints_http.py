"""Endpoints over HTTP: for who operates, to be looked at and taken back; no secret is made there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from signoff.domain.endpoints import Endpoint, read_endpoint_name, read_speaks_for
from signoff.domain.errors import InvalidRequest
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.webhooks.signatures import new_secret
from tests.support.api import Api, dump, open_api

pytestmark = pytest.mark.anyio

BOT = Endpoint("bot", frozenset({"finance"}), "ag-ui")


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        async with api.store.begin() as tx:
            await EndpointTable(tx.conn).add(BOT, new_secret(), by="ann")
        yield api


async def test_they_are_shown_without_their_secret_and_taken_back(api: Api) -> None:
    shown = (await api.get("olga", "/v1/endpoints/bot")).json()
    assert (shown["speaks_for"], shown["dialect"], shown["revoked_at"]) == (["finance"], "ag-ui", None)
    assert [one["created_by"] for one in shown["secrets"]] == ["ann"]
    assert "whsec_" not in (await api.get("olga", "/v1/endpoints")).text
    assert (await api.get("olga", "/v1/endpoints")).json() == {"endpoints": [shown]}
    assert (await api.post("olga", "/v1/endpoints/bot/revoke")).json()["revoked_at"] is not None


async def test_no_secret_can_be_had_by_a_right(api: Api, database_url: str) -> None:
    before = dump(database_url)
    for path, body in (("/v1/endpoints", {"name": "other", "speaks_for": ["*"]}), ("/v1/endpoints/bot/rotate", {})):
        assert (await api.post("olga", path, body)).status_code in (404, 405)
    assert dump(database_url) == before


async def test_only_who_operates_looks_at_endpoints(api: Api, database_url: str) -> None:
    before = dump(database_url)
    for who, expected in (("rita", 403), ("shop", 403), (None, 401)):
        answers = [await api.get(who, path) for path in ("/v1/endpoints", "/v1/endpoints/bot")]
        answers.append(await api.post(who, "/v1/endpoints/bot/revoke"))
        assert {answer.status_code for answer in answers} == {expected}
    assert dump(database_url) == before


@pytest.mark.parametrize("name", ["a/b", None, ["bot"], ""])
async def test_what_is_no_name_of_an_endpoint_is_refused(name: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_endpoint_name(name)


@pytest.mark.parametrize("voice", [[], "finance", [7], ["a\0b"], ["*", "finance"], ["@"], ["x"] * 201])
async def test_for_whom_nobody_can_speak_is_refused(voice: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_speaks_for(voice)
