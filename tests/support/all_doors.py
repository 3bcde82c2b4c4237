"""Every door through which a decision can come, side by side over one store: what each says to the same request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

import anyio
from typer.testing import CliRunner

from signoff.infra.cli.main import app as cli
from tests.support.api import Api
from tests.support.signed_doors import Send, by_celery, by_stream, by_webhook
from tests.support.streams import ENDPOINT, World, signed

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
        answer = await self._api.post(who, path, {"decisions": list(decisions)})
        return TAKEN if answer.is_success else str(answer.json()["code"])


class Signed:
    """A door for envelopes, signed by an endpoint that speaks for everybody."""

    def __init__(self, world: World, send: Send) -> None:
        self._world = world
        self._send = send

    async def decide(self, review_id: UUID, who: str, decisions: Decisions) -> str:
        body = {"review_id": str(review_id), "reviewer": who, "decisions": list(decisions)}
        fields = {"endpoint": ENDPOINT, **signed(self._world.secret, json.dumps(body).encode())}
        return await self._send(self._world, fields) or TAKEN


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
        "webhook": Signed(world, by_webhook),
        "stream": Signed(world, by_stream),
        "celery": Signed(world, by_celery),
        "command line": CommandLine(database_url, world.redis_url, api.tokens),
    }
