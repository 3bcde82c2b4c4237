"""R2 and R3: a commit happened and nobody hears of it; a commit did not happen and may have. Each of a job's commits
once, then many jobs under chance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from uuid import UUID

import pytest

from signoff.domain.jobs import JobStatus
from tests.support.eventually import eventually
from tests.support.postgres_proxy import Rates
from tests.support.scene import Scene, again, four, seeds_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

KINDS = ("reply_lost", "commit_lost", "write_lost")
# Which commit of a job it is: the first are claim and park, the others dispatches, records and the end.
EACH = 12
CHANCE = Rates(commit_lost=0.03, reply_lost=0.03, write_lost=0.01)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_commit_of_a_job_is_lost_once(scene: Scene, kind: str) -> None:
    worker = scene.worker()
    await scene.ready()
    before = len(scene.proxy.lost)
    for nth in range(EACH):
        scene.proxy.plan(kind, skip=nth)
        job_id = await scene.submit(four(f"{kind}-{nth}"))
        await scene.approve(job_id)
        assert await scene.ended(job_id) is JobStatus.succeeded, f"{kind} {nth}"
        # What heartbeats and others commit counts too: the last ones may have been left over.
        await eventually(partial(_has_lost, scene, before + nth + 1), message="nothing was lost")
    await scene.judge()
    worker.kill()


def _has_lost(scene: Scene, count: int) -> bool:
    return len(scene.proxy.lost) >= count


async def test_many_jobs_under_chance(scene: Scene, configured: Mapping[str, str]) -> None:
    for seed in seeds_of(configured, 1):
        workers = [scene.worker(), scene.worker()]
        await scene.ready()
        scene.proxy.reseed(seed)
        scene.proxy.rates = CHANCE
        jobs = [await scene.submit(four(f"chance-{seed}-{number}")) for number in range(20)]
        try:
            await asyncio.gather(*(_through(scene, job_id) for job_id in jobs))
            scene.proxy.rates = Rates()
            await scene.judge()
        except AssertionError as error:
            raise AssertionError(f"{again(seed)}\n{error}") from error
        finally:
            scene.proxy.rates = Rates()
            for worker in workers:
                worker.kill()
        assert {"reply_lost", "commit_lost"} <= set(scene.proxy.counts())


async def _through(scene: Scene, job_id: UUID) -> None:
    await scene.approve(job_id)
    assert await scene.ended(job_id, within_seconds=90) is JobStatus.succeeded
