"""Pauses, providers and workers over HTTP and by command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.workers import Presence, announce
from tests.support.api import Api, open_api
from tests.support.cli import Cli
from tests.support.parked import AGENT
from tests.support.paying import Provider
from tests.support.tellers import Tellers

WHY = {"reason": "a fire"}
WORKERS = ("w-1", "w-2")


async def scene(store: PostgresStore) -> None:
    """An agent, a provider that fails, and two workers; one of them serves another agent too."""
    desk = Tellers(store, Provider().tool())
    await desk.enrol()
    await desk.sql(
        "INSERT INTO signoff.providers (name, failures, opened_at, open_until, last_error)"
        " VALUES ('bank', 5, now(), now() + interval '1 hour', 'busy')"
    )
    async with store.connection() as conn:
        for name, agents in zip(WORKERS, ([AGENT], [AGENT, "other"]), strict=True):
            await announce(conn, Presence(name, agents, "1.0"), drained=False)


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        await scene(api.store)
        yield api


async def code(api: Api, who: str, path: str, body: Any) -> tuple[int, str]:
    answer = await api.post(who, path, body)
    return answer.status_code, answer.json()["code"]


@pytest.mark.anyio
async def test_pauses_over_http(api: Api) -> None:
    everything = {**WHY, "everything": True}
    assert await code(api, "shop", "/v1/pauses", everything) == (403, "right_missing")
    assert (await api.get("shop", "/v1/pauses")).status_code == 403
    for wrong in (WHY, {**everything, "agent": AGENT}, {"everything": True}, {**WHY, "everything": 1}):
        assert await code(api, "olga", "/v1/pauses", wrong) == (422, "invalid_request")
    answers = await asyncio.gather(*(api.post("olga", "/v1/pauses", everything, Idempotency_Key="k") for _ in range(3)))
    (pause,) = {answer.json()["pause_id"] for answer in answers}
    (listed,) = (await api.get("olga", "/v1/pauses")).json()["pauses"]
    assert (listed["pause_id"], listed["created_by"], listed["reason"]) == (pause, "olga", "a fire")

    end = f"/v1/pauses/{pause}/end"
    for rate in (0, -1, True, "x", 1e9):
        assert await code(api, "olga", end, {**WHY, "per_second": rate}) == (422, "invalid_request")
    assert (await api.post("olga", end, {**WHY, "per_second": 2})).json() == {"pause_id": pause, "effects": 0}
    assert await code(api, "olga", end, WHY) == (409, "pause_ended")
    assert await code(api, "olga", f"/v1/pauses/{uuid4()}/end", WHY) == (404, "pause_not_found")
    assert (await api.get("olga", "/v1/pauses")).json()["pauses"] == []
    assert len((await api.get("olga", "/v1/pauses", ended=True)).json()["pauses"]) == 1


@pytest.mark.anyio
async def test_providers_over_http(api: Api) -> None:
    (bank,) = (await api.get("olga", "/v1/providers")).json()["providers"]
    assert (bank["provider"], bank["failures"], bank["last_error"]) == ("bank", 5, "busy")
    assert (await api.get("shop", "/v1/providers")).status_code == 403
    assert await code(api, "olga", "/v1/providers/close", {**WHY, "provider": "x"}) == (404, "provider_not_found")
    done = await api.post("olga", "/v1/providers/close", {**WHY, "provider": "bank"})
    assert done.json() == {"provider": "bank", "closed": True, "effects": 0}
    (bank,) = (await api.get("olga", "/v1/providers")).json()["providers"]
    assert (bank["failures"], bank["open_until"], bank["last_error"]) == (0, None, "busy")


@pytest.mark.anyio
async def test_workers_over_http(api: Api) -> None:
    assert [worker["name"] for worker in (await api.get("olga", "/v1/workers")).json()["workers"]] == ["w-2", "w-1"]
    assert (await api.get("shop", "/v1/workers")).status_code == 403
    assert await code(api, "olga", "/v1/workers/drain", WHY) == (422, "invalid_request")
    assert await code(api, "olga", "/v1/workers/nobody/drain", WHY) == (404, "worker_not_found")
    (asked,) = (await api.post("olga", "/v1/workers/drain", {**WHY, "agent": "other"})).json()["workers"]
    assert (asked["name"], asked["drain_requested_by"], asked["running"], asked["sending"]) == ("w-2", "olga", [], [])
    (asked,) = (await api.post("olga", "/v1/workers/w-1/drain", WHY)).json()["workers"]
    assert asked["drain_requested_at"] is not None
    assert len((await api.post("olga", "/v1/workers/drain", {**WHY, "all": True})).json()["workers"]) == 2


def test_by_command_line(database_url: str, redis_url: str) -> None:
    cli = Cli(database_url, redis_url)
    cli.world(scene)
    reason = ("--reason", "a fire")
    assert "say everything" in cli.usage_error("olga", "pauses", "create", *reason)
    pause = cli.ok("olga", "pauses", "create", "--tool", "pay", *reason, "--request-id", "r").strip()
    assert cli.ok("olga", "pauses", "create", "--tool", "pay", *reason, "--request-id", "r").strip() == pause
    assert pause in cli.ok("olga", "pauses", "list")
    assert cli.ok("olga", "pauses", "end", pause, *reason, "--per-second", 5) == "ended: 0 effects go on\n"
    assert cli.json("olga", "pauses", "list")["pauses"] == []
    assert len(cli.json("olga", "pauses", "list", "--all")["pauses"]) == 1

    assert "bank" in cli.ok("olga", "providers", "list")
    assert cli.ok("olga", "providers", "close", "bank", *reason) == "closed: 0 effects go on\n"

    assert "works" in cli.ok("olga", "workers", "list")
    assert "say all" in cli.usage_error("olga", "workers", "drain", *reason)
    assert cli.ok("olga", "workers", "drain", "w-1", *reason) == "w-1: drains\n"
    assert cli.ok("olga", "workers", "drain", "--all", *reason) == "w-1: drains\nw-2: drains\n"
