"""The how-to about effects without tools: its code runs, and does what the text says."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from signoff.domain.jobs import JobStatus
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Agent
from signoff.workers.serving import load_agent
from tests.support.api import open_store
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "effects-without-tools.md").read_text(encoding="utf-8")
((NAME, CODE),) = re.findall(r"^`([\w/.]+)`\n\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """The page's file, loaded as a worker loads it."""
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield load_agent("salaries.agent:agent")
    for name in [name for name in sys.modules if name.split(".")[0] == "salaries"]:
        del sys.modules[name]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def paid(shop: Workshop, decision: dict[str, str]) -> tuple[str, list[str]]:
    """The result of a job, and the states of its effects."""
    await shop.enrol()
    job = await shop.run((await shop.submit("ada")).id)
    assert job.status is JobStatus.awaiting_review
    await shop.decide(job.id, decision)
    job = await shop.run(job.id)
    assert job.status is JobStatus.succeeded
    effects = [f"{one.tool} {one.attempts}" for one in await shop.effects(job.id)]
    return str((job.result or {})["text"]), effects


async def test_it_pays_once_and_notes_once(store: PostgresStore, agent: Agent) -> None:
    shop = Workshop(store, [], agent=agent)
    assert await paid(shop, {"type": "approve"}) == ("paid 3000 to ada", ["note 1", "pay 1"])


async def test_a_refusal_is_told_as_the_page_says(store: PostgresStore, agent: Agent) -> None:
    shop = Workshop(store, [], agent=agent)
    no = {"type": "reject", "message": "she has left", "then": "ask"}
    assert await paid(shop, no) == ("not paid, says rita: she has left (ask)", ["note 1"])
