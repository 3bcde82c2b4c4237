"""R4: Postgres is restarted and crashed every few seconds while jobs are submitted, decided and carried out."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from signoff.domain.errors import StoreUnavailable
from signoff.domain.jobs import JobStatus
from signoff.infra.embedded import EmbeddedPostgres
from signoff.infra.postgres.migrate import migrate
from tests.support.desk import open_desk
from tests.support.eventually import eventually
from tests.support.scene import Scene, again, four, open_scene, seeds_of
from tests.support.surroundings import Surroundings

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

JOBS = 60
SECONDS = 45.0
T = TypeVar("T")


@pytest.fixture
def postgres(open_folder: Path) -> Iterator[EmbeddedPostgres]:
    """As careful with its data as one in production."""
    with EmbeddedPostgres(open_folder / "state") as server:
        asyncio.run(migrate(server.url))
        yield server


@pytest.fixture
async def scene(postgres: EmbeddedPostgres, surroundings: Surroundings, tmp_path: Path) -> AsyncIterator[Scene]:
    around = surroundings
    desk = open_desk(postgres.url, around.redis_url, tmp_path, around.payments, around.mailbox)
    async with desk as opened, open_scene(opened, tmp_path) as scene:
        yield scene


async def test_exact_counts_after_restarts(
    scene: Scene, postgres: EmbeddedPostgres, configured: Mapping[str, str]
) -> None:
    (seed, *_) = seeds_of(configured, 1)
    chance = random.Random(seed)
    workers = [scene.worker(), scene.worker()]
    await eventually(partial(_are_there, scene, len(workers)), within_seconds=30, message=scene.desk.story)
    over = asyncio.Event()
    restarting = asyncio.create_task(_restart(postgres, chance, over))
    try:
        jobs = [await _surely(partial(_submit, scene, f"{seed}-{number}")) for number in range(JOBS)]
        assert len(set(jobs)) == JOBS
        await asyncio.gather(*(_surely(partial(scene.approve, job_id)) for job_id in jobs))
        over.set()
        restarts = await restarting
        ends = [await _surely(partial(scene.ended, job_id, within_seconds=90)) for job_id in jobs]
        assert ends == [JobStatus.succeeded] * JOBS
        assert [await scene.done(tool, args["ref"]) for n in range(JOBS) for tool, args in four(f"{seed}-{n}")] == (
            [1] * 4 * JOBS
        )
        await scene.judge()
        assert restarts >= 3
    except AssertionError as error:
        raise AssertionError(f"{again(seed)}\n{error}") from error
    finally:
        over.set()
        await restarting
    assert all(worker.exit_code is None for worker in workers), "a worker outlives its database"


async def _are_there(scene: Scene, count: int) -> bool:
    """One that starts while the database is away ends, and is its orchestrator's affair."""
    (row,) = await scene.desk.sql("SELECT count(*) AS n FROM signoff.workers")
    return bool(row["n"] >= count)


async def _submit(scene: Scene, ref: str) -> UUID:
    return await scene.submit(four(ref), idempotency_key=ref)


async def _restart(postgres: EmbeddedPostgres, chance: random.Random, over: asyncio.Event) -> int:
    """Until `SECONDS` have passed and it is over; returns how often."""
    until, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < until or (not over.is_set() and count < 3):
        await asyncio.to_thread(postgres.restart, chance.choice(["fast", "fast", "immediate"]))
        count += 1
        try:
            await asyncio.wait_for(over.wait(), chance.uniform(2, 6))
        except TimeoutError:
            continue
        if count >= 3:
            break
    return count


async def _surely(act: Callable[[], Awaitable[T]]) -> T:
    """As a careful client does: again, until it is answered."""
    until = time.monotonic() + 120
    while True:
        try:
            return await act()
        except StoreUnavailable:
            assert time.monotonic() < until, "the database did not come back"
            await asyncio.sleep(0.1)
