"""R6 and R7: hints that are lost, sent 2 to 50 times, in any order, and long after their time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
import redis

from signoff.domain.jobs import JobStatus
from signoff.infra.hints import RUN_EFFECT, RUN_JOB, agent_queue, make_broker
from tests.support.eventually import eventually
from tests.support.fault_agents import NAME
from tests.support.scene import Scene, again, four, seeds_of

pytestmark = pytest.mark.anyio

JOBS = 6


async def test_hints_of_many_jobs_shuffled_and_repeated(scene: Scene, configured: Mapping[str, str]) -> None:
    for seed in seeds_of(configured, 1):
        chance = random.Random(seed)
        workers = [scene.worker(), scene.worker()]
        jobs = [await scene.submit(four(f"hints-{seed}-{number}")) for number in range(JOBS)]
        await _publish(scene, await _shuffled(scene, jobs, chance))
        for job_id in jobs:
            await scene.approve(job_id)
            await _publish(scene, await _shuffled(scene, jobs, chance))
        ends = [await scene.ended(job_id) for job_id in jobs]
        # Long after everything is over.
        await _publish(scene, await _shuffled(scene, jobs, chance))
        await eventually(lambda: scene.desk.hints.queue_is_empty(NAME), within_seconds=30)
        assert ends == [JobStatus.succeeded] * JOBS, again(seed)
        for number in range(JOBS):
            done = [await scene.done(tool, args["ref"]) for tool, args in four(f"hints-{seed}-{number}")]
            assert done == [1, 1, 1, 1], again(seed)
        await scene.judge()
        for worker in workers:
            worker.kill()


async def test_a_queue_that_is_emptied_again_and_again(scene: Scene) -> None:
    worker = scene.worker()
    jobs = []
    for number in range(JOBS):
        jobs.append(await scene.submit(four(f"lost-{number}")))
        await _empty(scene)
    for job_id in jobs:
        await scene.approve(job_id)
        await _empty(scene)
    assert [await scene.ended(job_id) for job_id in jobs] == [JobStatus.succeeded] * JOBS
    await scene.judge()
    worker.kill()


async def _shuffled(scene: Scene, jobs: Sequence[UUID], chance: random.Random) -> list[tuple[str, str]]:
    """Messages about all jobs and their effects, each 2 to 50 times."""
    effects = await scene.desk.sql("SELECT operation_id FROM signoff.effects WHERE job_id = ANY (%s)", list(jobs))
    about = [(RUN_JOB, str(job_id)) for job_id in jobs] + [(RUN_EFFECT, row["operation_id"]) for row in effects]
    messages = [one for one in about for _ in range(chance.randint(2, 50))]
    chance.shuffle(messages)
    return messages[:300]


async def _publish(scene: Scene, messages: Sequence[tuple[str, str]]) -> None:
    def publish() -> None:
        with make_broker(scene.desk.addresses.redis_url, 2.0) as broker:
            for task, id_ in messages:
                broker.send_task(task, args=[id_], queue=agent_queue(NAME), retry=False)

    await asyncio.to_thread(publish)


async def _empty(scene: Scene) -> None:
    def empty() -> None:
        with redis.Redis.from_url(scene.desk.addresses.redis_url) as client:
            client.delete(agent_queue(NAME))

    await asyncio.to_thread(empty)
