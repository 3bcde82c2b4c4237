"""The server as a process runs it, and how it is put together."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from signoff.domain.errors import SchemaOutdated, SettingsInvalid, StoreUnavailable
from signoff.infra.addresses import Addresses, remove_run_file, resolve, write_run_file
from signoff.infra.bootstrap import open_services
from signoff.infra.embedded import EmbeddedPostgres
from signoff.infra.hints import CeleryHints, NoHints
from signoff.infra.settings import Settings
from tests.support.api import Api, hand_out_tokens, open_store, until
from tests.support.databases import ConfiguredServer, fresh_database
from tests.support.parked import AGENT

pytestmark = pytest.mark.anyio

SERVE = """
import asyncio
from signoff.infra.http.serve import serve
from signoff.infra.logs import configure_logs
from signoff.infra.settings import Settings
settings = Settings()
configure_logs(settings)
asyncio.run(serve(settings))
print("closed")
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """`serve` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, tokens: dict[str, str]) -> None:
        self.process = process
        self.url = url
        self.tokens = tokens

    def client(self, name: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {self.tokens[name]}"})

    async def stop(self) -> tuple[int | None, str]:
        self.process.send_signal(signal.SIGTERM)
        output, errors = await asyncio.wait_for(self.process.communicate(), 20)
        return self.process.returncode, output.decode() + errors.decode()


@pytest.fixture
async def server(database_url: str, redis_url: str) -> AsyncIterator[Process]:
    async with open_store(database_url) as services:
        tokens = await hand_out_tokens(services)
    port = free_port()
    environment = {
        **os.environ,
        "SIGNOFF_DATABASE_URL": database_url,
        "SIGNOFF_REDIS_URL": redis_url,
        "SIGNOFF_HTTP_PORT": str(port),
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, env=environment, stdout=pipe, stderr=pipe
    )
    server = Process(process, f"http://127.0.0.1:{port}", tokens)
    try:
        await until(lambda: _is_ready(server), within_seconds=30)
        yield server
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _is_ready(server: Process) -> bool:
    assert server.process.returncode is None
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{server.url}/readyz")).status_code == 200
    except httpx.TransportError:
        return False


async def test_it_serves_and_stops_at_once_though_requests_wait(server: Process) -> None:
    job = {"agent": AGENT, "input": "hello, this text is a body"}
    async with server.client("shop") as client:
        assert (await client.post("/v1/jobs", json=job)).status_code == 201
        waiting = asyncio.create_task(client.post("/v1/jobs", json=job, headers={"Prefer": "wait=60"}, timeout=60))
        await until(lambda: _count(server, 2))
        started = time.monotonic()
        code, log = await server.stop()
        answer = await waiting
    assert time.monotonic() - started < 10
    assert (answer.status_code, answer.json()["status"]) == (201, "queued")
    assert code == 0
    assert "closed" in log
    assert [line for line in log.splitlines() if '"path": "/v1/jobs"' in line and '"status": 201' in line]
    assert "this text is a body" not in log
    assert not [token for token in server.tokens.values() if token in log]


async def _count(server: Process, wanted: int) -> bool:
    async with server.client("shop") as client:
        return len((await client.get("/v1/jobs")).json()["jobs"]) == wanted


async def test_a_large_chunked_body_is_refused_on_the_wire(server: Process) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65536

    async with server.client("shop") as client:
        refused = await client.post("/v1/jobs", content=chunks(), headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
        whole = await client.post("/v1/jobs", content=b"x" * 2_000_000, headers={"content-type": "application/json"})
        assert (whole.status_code, whole.json()["code"]) == (413, "body_too_large")


async def test_a_hint_reaches_the_broker(server: Process, redis_url: str) -> None:
    async with server.client("shop") as client:
        job_id = (await client.post("/v1/jobs", json={"agent": AGENT, "input": "x"})).json()["job_id"]
    async with Redis.from_url(redis_url) as redis:
        raw: Any = await until(lambda: redis.lindex(f"signoff.agent.{AGENT}", 0))
    assert job_id in base64.b64decode(json.loads(raw)["body"]).decode()


async def test_services_are_put_together_and_closed(database_url: str, redis_url: str) -> None:
    addresses = Addresses(database_url, redis_url)
    async with open_services(Settings(), addresses, pool_size=2) as services:
        assert isinstance(services.hints, CeleryHints)
        assert services.pool.max_size == 2
        api = Api(services, {})
        assert (await api.get(None, "/readyz")).status_code == 200
    assert services.pool.closed


async def test_a_database_that_is_away_or_empty_is_told_of(
    postgres_server: EmbeddedPostgres | ConfiguredServer, redis_url: str
) -> None:
    with fresh_database(postgres_server.url) as empty:
        with pytest.raises(SchemaOutdated, match="signoff migrate"):
            async with open_services(Settings(), Addresses(empty, redis_url), hints=NoHints()):
                pass
    nobody = f"postgresql://nobody@127.0.0.1:{free_port()}/none?connect_timeout=1"
    with pytest.raises(StoreUnavailable):
        async with open_services(Settings(), Addresses(nobody, redis_url), hints=NoHints()):
            pass


def test_configured_addresses_win_over_the_run_file(tmp_path: Path) -> None:
    write_run_file(tmp_path, Addresses("postgresql://run", "redis://run"))
    settings = Settings(state_dir=tmp_path, database_url=SecretStr("postgresql://set"))
    assert resolve(settings) == Addresses("postgresql://set", "redis://run")
    assert stat.S_IMODE((tmp_path / "addresses.json").stat().st_mode) == 0o600
    both = Settings(state_dir=tmp_path, database_url=SecretStr("postgresql://set"), redis_url=SecretStr("redis://set"))
    assert resolve(both) == Addresses("postgresql://set", "redis://set")


def test_without_addresses_it_says_what_to_set(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    with pytest.raises(SettingsInvalid, match=r"SIGNOFF_DATABASE_URL.*signoff up"):
        resolve(settings)
    write_run_file(tmp_path, Addresses("postgresql://run", "redis://run"))
    write_run_file(tmp_path, Addresses("postgresql://again", "redis://again"))
    assert resolve(settings).redis_url == "redis://again"
    remove_run_file(tmp_path)
    remove_run_file(tmp_path)
    with pytest.raises(SettingsInvalid):
        resolve(settings)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"database_url": 7}'])
def test_a_broken_run_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "addresses.json").write_text(text)
    with pytest.raises(SettingsInvalid, match=r"addresses\.json"):
        resolve(Settings(state_dir=tmp_path))
