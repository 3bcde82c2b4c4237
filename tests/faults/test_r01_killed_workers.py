"""R1: SIGKILL at every named point, at each time that it is reached, of a worker, of its child and of their parent."""

from __future__ import annotations

import signal
from pathlib import Path
from uuid import UUID

import pytest

from signoff.domain.jobs import JobStatus
from signoff.workers.faults import Point
from tests.support.eventually import eventually
from tests.support.scene import Scene, four, pool_of
from tests.support.worker_process import Strike, WorkerProcess

pytestmark = pytest.mark.anyio

ON_THE_WAY_TO_REVIEW = (Point.claimed, Point.before_flush, Point.after_flush, Point.before_park, Point.after_park)
FOR_EACH_EFFECT = (
    Point.before_dispatch,
    Point.after_dispatch,
    Point.after_answer,
    Point.before_record,
    Point.after_record,
)
AT_THE_END = (Point.before_finish, Point.after_finish)
AFTER_DECISION = [
    *((point, nth) for point in FOR_EACH_EFFECT for nth in (1, 2, 4)),
    (Point.before_flush, 1),
    (Point.before_flush, 3),
    (Point.before_flush, 5),
    (Point.after_flush, 1),
    *((point, 1) for point in AT_THE_END),
]


def test_every_point_is_struck() -> None:
    assert {*ON_THE_WAY_TO_REVIEW, *FOR_EACH_EFFECT, *AT_THE_END} == set(Point)


@pytest.mark.parametrize("point", ON_THE_WAY_TO_REVIEW)
async def test_killed_on_the_way_to_the_review(scene: Scene, point: Point) -> None:
    struck = scene.worker(Strike(point))
    job_id = await scene.submit(four(f"way-{point}"))
    await _is_killed(struck)
    await _goes_on(scene, job_id)


@pytest.mark.parametrize(("point", "nth"), AFTER_DECISION)
async def test_killed_after_the_decision(scene: Scene, point: Point, nth: int) -> None:
    job_id, struck = await _decided(scene, f"{point}-{nth}", Strike(point, nth=nth))
    await _is_killed(struck)
    await _goes_on(scene, job_id)


@pytest.mark.parametrize("point", [*FOR_EACH_EFFECT, *AT_THE_END])
@pytest.mark.parametrize("who", ["child", "parent"])
async def test_killed_where_the_pool_is_forked(scene: Scene, point: Point, who: str, tmp_path: Path) -> None:
    marker = tmp_path / "struck"
    nth = 2 if point in FOR_EACH_EFFECT else 1
    strike = Strike(point, nth=nth, parent=who == "parent", marker=marker)
    job_id, struck = await _decided(scene, f"{who}-{point}", strike, **pool_of("prefork"))
    await eventually(marker.exists, within_seconds=20, message=scene.desk.story)
    if who == "parent":
        await _is_killed(struck)
        await _goes_on(scene, job_id)
        return
    # The worker goes on by itself, with another child.
    await _ends_well(scene, job_id)
    assert struck.exit_code is None
    struck.kill()


async def _decided(scene: Scene, ref: str, strike: Strike, **settings: str) -> tuple[UUID, WorkerProcess]:
    first = scene.worker()
    job_id = await scene.submit(four(ref))
    await scene.desk.pending_review(job_id)
    first.kill()
    struck = scene.worker(strike, **settings)
    await scene.approve(job_id)
    return job_id, struck


async def _is_killed(worker: WorkerProcess) -> None:
    await eventually(
        lambda: worker.exit_code == -signal.SIGKILL, within_seconds=20, message="the worker was not struck"
    )


async def _goes_on(scene: Scene, job_id: UUID) -> None:
    rescuer = scene.worker()
    if not any(review.status == "decided" for review in await scene.desk.reviews(job_id)):
        await scene.approve(job_id)
    await _ends_well(scene, job_id)
    rescuer.kill()


async def _ends_well(scene: Scene, job_id: UUID) -> None:
    assert await scene.ended(job_id) is JobStatus.succeeded
    effects = await scene.desk.effects(job_id)
    assert {tool: effect.status for tool, effect in effects.items()} == dict.fromkeys(effects, "succeeded")
    assert len(effects) == 4
    assert len(await scene.desk.reviews(job_id)) == 1
    await scene.judge()
