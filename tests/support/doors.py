"""Every door through which a decision can come, side by side over one store: what each says to the same request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

import anyio
import httpx
from typer.testing import CliRunner

from signoff.infra.cli.main import app as cli
from signoff.workers import intake
from tests.support.api import Api
from tests.support.streams import ENDPOINT, World, drained, signed

Decisions = Sequence[Mapping[str, Any]]
TAKEN = "taken"


class Door(Protocol):
    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        """The code of the refusal; TAKEN if there is none."""


class Http:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        path = f"/v1/reviews/{review_id}/decisions"
        return _code(await self._api.post(who, path, {"decisions": list(decisions)}))


class Webhook:
    def __init__(self, api: Api, world: World) -> None:
        self._api = api
        self._world = world

    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        fields = signed(self._world.secret, envelope(review_id, who, decisions))
        body = fields.pop("body")
        async with self._api.client(None) as client:
            headers = {**fields, "content-type": "application/json"}
            return _code(await client.post(f"/v1/webhooks/{ENDPOINT}/decisions", content=body, headers=headers))


class Stream:
    def __init__(self, world: World) -> None:
        self._world = world
        self._taker = world.decisions_taker()

    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        known = len(await self._world.refusals())
        fields = signed(self._world.secret, envelope(review_id, who, decisions))
        await self._world.redis.xadd("signoff:decisions", {"endpoint": ENDPOINT, **fields})
        await drained(self._taker)
        return await _refusal(self._world, known)


class CeleryTask:
    def __init__(self, world: World) -> None:
        self._world = world

    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        known = len(await self._world.refusals())
        headers = signed(self._world.secret, envelope(review_id, who, decisions))
        body = headers.pop("body").decode()
        await intake.decide_review(self._world.services, "task", ENDPOINT, headers, body)
        return await _refusal(self._world, known)


class CommandLine:
    def __init__(self, database_url: str, redis_url: str, tokens: Mapping[str, str]) -> None:
        self._environment = {"SIGNOFF_DATABASE_URL": database_url, "SIGNOFF_REDIS_URL": redis_url}
        self._tokens = tokens

    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        environment = {**self._environment, "SIGNOFF_TOKEN": self._tokens[who]}
        text = json.dumps({"decisions": list(decisions)})
        arguments = ["reviews", "decide", str(review_id), "--file", "-"]

        def run() -> str:
            # A loop of its own, as in a process of its own.
            done = CliRunner().invoke(cli, arguments, input=text, env=environment)
            return TAKEN if done.exit_code == 0 else done.stderr.rpartition("[")[2].partition("]")[0]

        return await anyio.to_thread.run_sync(run)


def all_doors(api: Api, world: World, database_url: str) -> dict[str, Door]:
    return {
        "http": Http(api),
        "webhook": Webhook(api, world),
        "stream": Stream(world),
        "celery": CeleryTask(world),
        "command line": CommandLine(database_url, world.redis_url, api.tokens),
    }


def envelope(review_id: UUID, who: str, decisions: Decisions) -> bytes:
    return json.dumps({"review_id": str(review_id), "reviewer": who, "decisions": list(decisions)}).encode()


def _code(answer: httpx.Response) -> str:
    return TAKEN if answer.is_success else str(answer.json()["code"])


async def _refusal(world: World, known: int) -> str:
    refusals = (await world.refusals())[known:]
    return str(refusals[-1]["code"]) if refusals else TAKEN
