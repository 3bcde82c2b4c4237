"""R8: two to five workers take the same job at one barrier, before its review and after it: one of them runs it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.policy import review
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.judging_once import judge_ledger, require_none
from tests.support.models import calling
from tests.support.runners import Workshop
from tests.support.scene import again, seeds_of
from tests.support.till import Till

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

SEEDS = 40
APPROVE = {"type": "approve"}
CALLS = (("pay", {"to": "ada", "amount": 30}), ("credit", {"to": "ada", "amount": 5}))


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def test_one_of_them_runs_it(store: PostgresStore, configured: Mapping[str, str]) -> None:
    for seed in seeds_of(configured, SEEDS):
        try:
            await _race(store, random.Random(seed))
        except AssertionError as error:
            raise AssertionError(f"{again(seed)}\n{error}") from error
    async with store.connection() as conn:
        require_none(await judge_ledger(conn))


async def _race(store: PostgresStore, chance: random.Random) -> None:
    till = Till("opaque")
    rules = [review("*", reviewers=["finance"])]
    first = Workshop(store, till.tools, calling(*CALLS), "Done.", rules=rules)
    # One model for all of them: whoever is asked gives the next answer.
    others = [Workshop(store, till.tools, agent=first.agent) for _ in range(chance.randint(1, 4))]
    shops = [first, *others]
    await shops[0].enrol()
    job = await shops[0].submit()
    parked = await _all_at_once(shops, job, chance)
    assert parked.status is JobStatus.awaiting_review
    await shops[0].decide(job.id, APPROVE, APPROVE)
    ended = await _all_at_once(shops, job, chance)
    assert ended.status is JobStatus.succeeded, ended.error_message
    assert ended.fence == 2, "one claim until the review and one after it"
    assert sorted(till.paid) == [("ada", 5), ("ada", 30)]
    effects = await shops[0].effects(job.id)
    assert [effect.status for effect in effects] == [EffectStatus.succeeded] * 2


async def _all_at_once(shops: Sequence[Workshop], job: Job, chance: random.Random) -> Job:
    barrier = asyncio.Event()

    async def run(shop: Workshop, turns: int) -> None:
        await barrier.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        await shop.runner.run_hinted(job.id)

    tasks = [asyncio.ensure_future(run(shop, chance.randint(0, 3))) for shop in shops]
    barrier.set()
    await asyncio.gather(*tasks)
    return await shops[0].job(job.id)
