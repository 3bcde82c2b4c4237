"""A support desk for each test of whole processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.infra.embedded import EmbeddedPostgres
from tests.support.databases import ConfiguredServer
from tests.support.desk import Desk, open_desk
from tests.support.desk_agents import spec
from tests.support.surroundings import Surroundings, open_surroundings


@pytest.fixture
def payments(tmp_path: Path) -> Iterator[Payments]:
    with Payments(tmp_path / "payments.jsonl") as service:
        yield service


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    with Mailbox(tmp_path / "mail.jsonl") as server:
        yield server


@pytest.fixture
async def desk(
    database_url: str, redis_url: str, tmp_path: Path, payments: Payments, mailbox: Mailbox
) -> AsyncIterator[Desk]:
    async with open_desk(database_url, redis_url, tmp_path, payments, mailbox) as opened:
        yield opened


@pytest.fixture(scope="module")
def surroundings(
    postgres_server: EmbeddedPostgres | ConfiguredServer,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Surroundings]:
    with open_surroundings(postgres_server.url, template_database, tmp_path_factory.mktemp("desk")) as opened:
        yield opened


@pytest.fixture(scope="module")
async def calm_desk(surroundings: Surroundings) -> AsyncIterator[Desk]:
    """A desk with one worker, for the tests of a module that break neither: use an order of your own in each."""
    async with surroundings.desk() as desk:
        desk.start_worker(SIGNOFF_AGENTS=f"{desk.environment['SIGNOFF_AGENTS']},{spec('free')}")
        yield desk
