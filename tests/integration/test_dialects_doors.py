"""Every dialect through every door, for real; what is malformed never gets as far as the review."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.domain.dialects import DIALECTS, media_type
from signoff.domain.endpoints import EVERYBODY, Endpoint
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.webhooks.signatures import new_secret
from tests.support.api import Api, dump
from tests.support.cli import Cli
from tests.support.dialects import golden
from tests.support.parked import Parked, parked, refund
from tests.support.signed_doors import DOORS
from tests.support.streams import World, open_world, signed

NAMES = [one.name for one in DIALECTS]
APPROVALS: dict[str, Any] = {
    "langchain": {"type": "approve"},
    "langchain-js": {"decisions": [{"type": "approve"}]},
    "agent-inbox": [{"type": "accept", "args": None}],
    "ag-ui": {"resume": [{"interruptId": "<review>", "status": "resolved", "payload": {"approved": True}}]},
    "openai-agents": {"decisions": [{"call_id": "call-1", "approve": True}]},
}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url) as world:
        yield world


def approval(name: str, job: Parked) -> Any:
    return json.loads(json.dumps(APPROVALS[name]).replace("<review>", str(job.review_id)))


def body(job: Parked, **said: Any) -> bytes:
    return json.dumps({"review_id": str(job.review_id), "reviewer": "rita", **said}).encode()


@pytest.mark.anyio
@pytest.mark.parametrize("door", DOORS)
async def test_every_dialect_decides(world: World, door: str) -> None:
    secret = new_secret()
    for name in NAMES:
        async with world.store.begin() as tx:
            await EndpointTable(tx.conn).add(Endpoint(f"to-{name}", frozenset({EVERYBODY}), name), secret)
        for endpoint, key, dialect in (("chat", world.secret, {"dialect": name}), (f"to-{name}", secret, {})):
            job = await parked(world.store, refund(tool_call_id="call-1"))
            sent = signed(key, body(job, answer=approval(name, job), **dialect))
            assert await DOORS[door](world, {"endpoint": endpoint, **sent}) is None, name
            [row] = await world.rows("SELECT status FROM signoff.reviews WHERE id = %s", job.review_id)
            assert row["status"] == "decided", name


@pytest.mark.anyio
@pytest.mark.parametrize("door", DOORS)
async def test_what_is_malformed_changes_nothing(world: World, database_url: str, door: str) -> None:
    jobs = {1: await parked(world.store), 2: await parked(world.store, refund(30), refund(31))}
    before = {name: rows for name, rows in dump(database_url).items() if name not in ("events", "audit")}
    for name in NAMES:
        for case in golden(name)["refused"][::5]:
            sent = signed(world.secret, body(jobs[case["items"]], dialect=name, answer=case["body"]))
            assert await DOORS[door](world, {"endpoint": "chat", **sent}) is not None, (name, case)
    after = {name: rows for name, rows in dump(database_url).items() if name not in ("events", "audit")}
    assert after == before


@pytest.mark.anyio
async def test_a_header_that_nobody_signed_names_no_dialect(world: World) -> None:
    job = await parked(world.store)
    sent = signed(world.secret, body(job, decisions=[{"type": "approve"}]))
    headers = {name: value for name, value in sent.items() if name != "body"}
    async with Api(world.services, {}).client(None) as client:

        async def post(kind: str) -> httpx.Response:
            path = "/v1/webhooks/chat/decisions"
            return await client.post(path, content=sent["body"], headers={**headers, "content-type": kind})

        refused = await post(media_type("langchain"))
        assert (refused.status_code, refused.json()["code"]) == (415, "unsupported_media_type")
        assert (await post("application/json; charset=utf-8")).status_code == 200


def test_every_dialect_on_the_command_line(database_url: str, redis_url: str, tmp_path: Path) -> None:
    cli, file = Cli(database_url, redis_url), tmp_path / "answer.json"
    for name in NAMES:
        job = cli.world(lambda store: parked(store, refund(tool_call_id="call-1")))
        decide = ("reviews", "decide", job.review_id, "--file", file, "--dialect", name)
        file.write_text('{"decisions": [{"type": "accept"}], "resume": []}')
        assert "[invalid_request]" in cli.refused("rita", *decide)
        file.write_text(json.dumps(approval(name, job)))
        assert cli.json("rita", *decide)["status"] == "decided"
    cli.usage_error("rita", "reviews", "decide", job.review_id, "--file", file, "--dialect", "cobol")
    cli.usage_error("rita", "reviews", "decide", job.review_id, "--approve", "--dialect", "ag-ui")
