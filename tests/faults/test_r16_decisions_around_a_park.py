"""R16: decisions that come before the worker that parked the job has got beyond it, and while another resumes."""

from __future__ import annotations

import signal

import pytest

from signoff.domain.jobs import JobStatus
from signoff.workers.faults import Point
from tests.support.eventually import eventually
from tests.support.scene import Scene, four
from tests.support.worker_process import Strike

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("point", [Point.after_park, Point.after_flush])
async def test_decided_before_the_worker_knows_that_it_has_parked(scene: Scene, point: Point) -> None:
    sleeper = scene.worker(Strike(point, signal.SIGSTOP))
    job_id = await scene.submit(four(f"park-{point}"))
    await eventually(lambda: sleeper.stands_still, within_seconds=15, message="the worker was not stopped")
    rescuer = scene.worker()
    await scene.approve(job_id)
    assert await scene.ended(job_id) is JobStatus.succeeded
    sleeper.send(signal.SIGCONT)
    assert await sleeper.drain() == 0
    assert [await scene.done(tool, args["ref"]) for tool, args in four(f"park-{point}")] == [1, 1, 1, 1]
    assert len(await scene.desk.reviews(job_id)) == 1
    await scene.judge()
    rescuer.kill()


async def test_decided_again_while_another_resumes(scene: Scene) -> None:
    """The same decision once more, as from a second click, when its effects are under way."""
    first = scene.worker()
    job_id = await scene.submit(four("again"))
    review = await scene.desk.pending_review(job_id)
    first.kill()
    sleeper = scene.worker(Strike(Point.after_dispatch, signal.SIGSTOP))
    decision = [{"type": "approve"}] * len(review.items)
    answer = await scene.desk.decide(review.id, *decision)
    await eventually(lambda: sleeper.stands_still, within_seconds=15, message="the worker was not stopped")
    assert (await scene.desk.decide(review.id, *decision)).decisions == answer.decisions
    rescuer = scene.worker()
    assert await scene.ended(job_id) is JobStatus.succeeded
    sleeper.send(signal.SIGCONT)
    assert await sleeper.drain() == 0
    assert [await scene.done(tool, args["ref"]) for tool, args in four("again")] == [1, 1, 1, 1]
    await scene.judge()
    rescuer.kill()
