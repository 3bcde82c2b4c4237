"""A support desk for each test of whole processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.infra.embedded import EmbeddedPostgres, EmbeddedValkey
from tests.support.databases import ConfiguredServer, fresh_database
from tests.support.desk import Desk, open_desk
from tests.support.desk_agents import spec


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


@dataclass(frozen=True)
class Surroundings:
    """What a desk of a whole module stands in."""

    database_url: str
    redis_url: str
    folder: Path
    payments: Payments
    mailbox: Mailbox


@pytest.fixture(scope="module")
def surroundings(
    postgres_server: EmbeddedPostgres | ConfiguredServer,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Surroundings]:
    folder = tmp_path_factory.mktemp("desk")
    template = urlsplit(template_database).path.removeprefix("/")
    with (
        EmbeddedValkey() as valkey,
        Payments(folder / "payments.jsonl") as payments,
        Mailbox(folder / "mail.jsonl") as mailbox,
        fresh_database(postgres_server.url, template=template) as database_url,
    ):
        yield Surroundings(database_url, valkey.url, folder, payments, mailbox)


@pytest.fixture(scope="module")
async def calm_desk(surroundings: Surroundings) -> AsyncIterator[Desk]:
    """A desk with one worker, for the tests of a module that break neither: use an order of your own in each."""
    around = surroundings
    async with open_desk(around.database_url, around.redis_url, around.folder, around.payments, around.mailbox) as desk:
        desk.start_worker(SIGNOFF_AGENTS=f"{desk.environment['SIGNOFF_AGENTS']},{spec('free')}")
        yield desk
