"""R10, R11, R13: whatever a provider and the way to it can do to a request, for each class of effect."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from signoff.domain.jobs import JobStatus
from tests.support.fault_agents import PATIENT
from tests.support.provider import FAULTS, HUGE_BYTES, Way
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio

TOOLS = ("pay", "book", "mail")
NOTHING_IN_THE_END = (Way.decline,)
STORM = [Way.too_many, Way.error_before, Way.nothing_and_reply_lost, Way.error_before, Way.too_many]


@pytest.mark.parametrize("tool", TOOLS)
async def test_each_way_once(scene: Scene, tool: str) -> None:
    worker = scene.worker()
    jobs: dict[Way, UUID] = {}
    way: Way
    for way in FAULTS:
        # Who declines declines again, should the first answer come too late on a slow machine.
        times = PATIENT["max_attempts"] if way in NOTHING_IN_THE_END else 1
        scene.provider.plan(_ref(tool, way), *[way] * times)
        jobs[way] = await scene.submit([_call(tool, _ref(tool, way))])
    await asyncio.gather(*(_through(scene, job_id) for job_id in jobs.values()))
    for way, job_id in jobs.items():
        status = (await scene.desk.effects(job_id))[tool].status
        wanted = ("failed", 0) if way in NOTHING_IN_THE_END else ("succeeded", 1)
        assert (str(status), await scene.done(tool, _ref(tool, way))) == wanted, way
    await scene.judge()
    worker.kill()


@pytest.mark.parametrize("tool", ["pay", "book"])
async def test_a_storm_of_errors_is_weathered_within_the_budget(scene: Scene, tool: str) -> None:
    worker = scene.worker()
    ref = f"storm-{tool}"
    scene.provider.plan(ref, *STORM)
    job_id = await scene.submit([_call(tool, ref)])
    await _through(scene, job_id)
    effect = (await scene.desk.effects(job_id))[tool]
    assert (str(effect.status), await scene.done(tool, ref)) == ("succeeded", 1)
    assert effect.attempts <= len(STORM) + 1 <= PATIENT["max_attempts"]
    await scene.judge()
    worker.kill()


async def test_a_huge_answer_is_kept_aside_and_not_told(scene: Scene) -> None:
    worker = scene.worker()
    scene.provider.plan("huge", Way.huge)
    job_id = await scene.submit([_call("pay", "huge")])
    await _through(scene, job_id)
    (row,) = await scene.desk.sql(
        "SELECT length(e.result) AS kept, length(a.result) AS aside FROM signoff.effects e"
        " LEFT JOIN signoff.results_aside a USING (operation_id) WHERE e.job_id = %s",
        job_id,
    )
    assert row["kept"] < HUGE_BYTES / 10
    assert row["aside"] > HUGE_BYTES
    worker.kill()


async def test_a_call_that_takes_longer_than_the_lease_is_made_once(scene: Scene) -> None:
    """R10: 2.5 seconds under a lease of 1.5, which the heartbeat renews."""
    worker = scene.worker()
    scene.provider.slow_seconds = 2.5
    jobs = {}
    for tool in TOOLS:
        scene.provider.plan(f"slow-{tool}", Way.slow)
        jobs[tool] = await scene.submit([_call(tool, f"slow-{tool}")])
    await asyncio.gather(*(_through(scene, job_id) for job_id in jobs.values()))
    for tool, job_id in jobs.items():
        effect = (await scene.desk.effects(job_id))[tool]
        assert (str(effect.status), effect.attempts, effect.doubt_since) == ("succeeded", 1, None)
        assert await scene.done(tool, f"slow-{tool}") == 1
    await scene.judge()
    worker.kill()


def _ref(tool: str, way: Way) -> str:
    return f"{tool}-{way}"


def _call(tool: str, ref: str) -> tuple[str, dict[str, object]]:
    return tool, {"ref": ref, **({"amount": 5.0} if tool == "pay" else {}), "ask": True}


async def _through(scene: Scene, job_id: UUID) -> None:
    await scene.approve(job_id)
    assert await scene.ended(job_id, within_seconds=60) is JobStatus.succeeded
