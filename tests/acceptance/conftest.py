"""A support desk for each test of whole processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from tests.support.desk import Desk, open_desk


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
