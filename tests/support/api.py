"""The HTTP application in the test's own loop, with a client for each person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from uuid import uuid4

import httpx
import psycopg
from psycopg import sql

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import Services, open_services
from signoff.infra.hints import NoHints
from signoff.infra.http.app import make_app
from signoff.infra.settings import Settings
from signoff.infra.tokens import new_token
from tests.support.eventually import eventually
from tests.support.parked import EVERYBODY, people

T = TypeVar("T")

BASE = "http://signoff.test"


class Api:
    """One application; `tokens` by the name of their owner."""

    def __init__(self, services: Services, tokens: Mapping[str, str]) -> None:
        self.services = services
        self.store = services.store
        self.tokens = tokens
        self.app = make_app(services, asyncio.Event())

    def client(self, name: str | None) -> httpx.AsyncClient:
        """A client that acts as `name`; as nobody with None."""
        headers = {} if name is None else {"Authorization": f"Bearer {self.tokens[name]}"}
        # What the application raises after it has answered is for the server's log, not for the client.
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)

    async def get(self, name: str | None, path: str, **parameters: Any) -> httpx.Response:
        async with self.client(name) as client:
            return await client.get(path, params=parameters or None)  # {} would take a query off the path

    async def post(self, name: str | None, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        async with self.client(name) as client:
            if body is None:
                return await client.post(path, headers=named)
            return await client.post(path, json=body, headers=named)


@asynccontextmanager
async def open_store(database_url: str, pool_size: int = 5) -> AsyncIterator[Services]:
    """Services without a broker, with everybody in the database."""
    addresses = Addresses(database_url, "redis://127.0.0.1:1")
    async with open_services(Settings(), addresses, hints=NoHints(), pool_size=pool_size) as services:
        await people(services.store)
        yield services


@asynccontextmanager
async def open_api(database_url: str, pool_size: int = 5) -> AsyncIterator[Api]:
    """The application with everybody in the database, each with a token."""
    async with open_store(database_url, pool_size) as services:
        yield Api(services, await hand_out_tokens(services))


async def hand_out_tokens(services: Services) -> dict[str, str]:
    tokens: dict[str, str] = {}
    async with services.store.begin() as tx:
        for who in EVERYBODY:
            tokens[who.name], hashed = new_token()
            await tx.principals.add_token(uuid4(), who.name, hashed)
    return tokens


async def until(fn: Callable[[], Awaitable[T | None]], *, within_seconds: float = 10.0) -> T:
    """`eventually` for coroutine functions: their first true answer."""
    return cast(T, await eventually(cast(Callable[[], Any], fn), within_seconds=within_seconds))


def dump(database_url: str) -> dict[str, list[str]]:
    """Every row of every table of ours as text; without the time of a token's last use, which a GET may write."""
    with psycopg.connect(database_url) as conn:
        names = [row[0] for row in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'signoff'")]
        tables = {}
        for name in sorted(names):
            row_text = sql.SQL("(to_jsonb(t) - 'last_used_at')::text")
            query = sql.SQL("SELECT {} FROM signoff.{} t ORDER BY 1").format(row_text, sql.Identifier(name))
            tables[name] = [row[0] for row in conn.execute(query)]
    return tables
