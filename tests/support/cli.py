"""The command line inside the test's process, over a database with everybody in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from typer.testing import CliRunner, Result

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.cli.main import app
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from tests.support.api import hand_out_tokens, open_store

T = TypeVar("T")


class Cli:
    """Runs commands as somebody of `tests.support.parked`, or as nobody."""

    def __init__(self, database_url: str, redis_url: str) -> None:
        self.database_url = database_url
        self.redis_url = redis_url
        self.tokens: Mapping[str, str] = asyncio.run(self._set_up())

    def run(self, who: str | None, *arguments: object, input: str | None = None, **environment: str) -> Result:
        """What the command did; environment names are given without SIGNOFF_."""
        addresses = {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url}
        token = {"TOKEN": self.tokens[who]} if who is not None else {}
        named = {f"SIGNOFF_{name}": value for name, value in {**addresses, **token, **environment}.items()}
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input, env=named)

    def ok(self, who: str | None, *arguments: object, **more: Any) -> str:
        """What it printed; fails the test unless it exits 0."""
        result = self.run(who, *arguments, **more)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def json(self, who: str | None, *arguments: object, **more: Any) -> Any:
        """The one document that it printed."""
        return json.loads(self.ok(who, *arguments, "--json", **more))

    def refused(self, who: str | None, *arguments: object, **more: Any) -> str:
        """What it said on standard error; fails the test unless it exits 1, with nothing on standard output."""
        result = self.run(who, *arguments, **more)
        assert (result.exit_code, result.stdout) == (1, ""), (result.output, result.exception)
        assert isinstance(result.exception, SystemExit)
        return result.stderr

    def usage_error(self, who: str | None, *arguments: object) -> str:
        """The same for exit code 2, as one line: the frame around it breaks lines."""
        result = self.run(who, *arguments)
        assert (result.exit_code, result.stdout) == (2, ""), (result.output, result.exception)
        return " ".join(result.stderr.replace("│", " ").split())

    def world(self, change: Callable[[PostgresStore], Awaitable[T]]) -> T:
        """What others do meanwhile."""

        async def act() -> T:
            addresses = Addresses(self.database_url, self.redis_url)
            async with open_services(Settings(), addresses, hints=NoHints(), pool_size=2) as services:
                return await change(services.store)

        return asyncio.run(act())

    async def _set_up(self) -> Mapping[str, str]:
        async with open_store(self.database_url) as services:
            return await hand_out_tokens(services)
