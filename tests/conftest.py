"""Servers, databases and a clean environment for every test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from signoff.infra.embedded import EmbeddedPostgres, EmbeddedValkey
from tests.support.databases import ConfiguredServer, fresh_database
from tests.support.folders import folder_open_to_all

_PREFIX = "SIGNOFF_"


def pytest_configure(config: pytest.Config) -> None:
    """SIGNOFF_TEST_LOST_REPLIES=0.01 loses one in a hundred writes of workers, or the word of them."""
    if rate := os.environ.get("SIGNOFF_TEST_LOST_REPLIES"):
        # Here and not above: other runs need nothing of it.
        from tests.support.lost_replies import LostReplies  # noqa: PLC0415

        seed = int(os.environ.get("SIGNOFF_TEST_FIRST_SEED", 0))
        config.pluginmanager.register(LostReplies(float(rate), seed))


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Async tests run on the event loop that the processes use."""
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(scope="session", autouse=True)
def configured() -> dict[str, str]:
    """The settings that the test run was started with, which no test sees."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}


@pytest.fixture(autouse=True)
def _clean_environment(configured: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests reaches a test, nor one test's the next."""
    for name in [name for name in os.environ if name.startswith(_PREFIX)]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres_server(configured: dict[str, str]) -> Iterator[EmbeddedPostgres | ConfiguredServer]:
    """One server for all tests. Tests that stop or crash a server start their own, with fsync on."""
    if url := configured.get("SIGNOFF_DATABASE_URL"):
        yield ConfiguredServer(url)
        return
    with EmbeddedPostgres(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def template_database(postgres_server: EmbeddedPostgres | ConfiguredServer) -> Iterator[str]:
    """The address of a migrated database that nobody connects to: it is copied for each test."""
    # Here and not above: unit tests need none of what it brings along.
    from signoff.infra.postgres.migrate import migrate  # noqa: PLC0415

    with fresh_database(postgres_server.url) as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture
def database_url(postgres_server: EmbeddedPostgres | ConfiguredServer, template_database: str) -> Iterator[str]:
    """The address of an empty, migrated database of the test's own."""
    template = urlsplit(template_database).path.removeprefix("/")
    with fresh_database(postgres_server.url, template=template) as url:
        yield url


@pytest.fixture(scope="session")
def valkey_server(configured: dict[str, str]) -> Iterator[EmbeddedValkey | ConfiguredServer]:
    """One server for all tests. Tests that stop a server start their own."""
    if url := configured.get("SIGNOFF_REDIS_URL"):
        yield ConfiguredServer(url)
        return
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def redis_url(valkey_server: EmbeddedValkey | ConfiguredServer) -> str:
    """The address of an empty Redis database."""
    with redis.Redis.from_url(valkey_server.url) as client:
        client.flushdb()
    return valkey_server.url


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may pass through, as they may not through `tmp_path`."""
    with folder_open_to_all() as folder:
        yield folder


@pytest.fixture(scope="module")
def state_folder() -> Iterator[Path]:
    """A state folder for the servers of one test module."""
    with folder_open_to_all() as folder:
        yield folder / "state"


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """What a test logged may be text that can't be encoded; on its way between processes it must be."""
    data = yield
    if data is not None and "sections" in data:
        data["sections"] = [(title, text.encode(errors="replace").decode()) for title, text in data["sections"]]
    return data
