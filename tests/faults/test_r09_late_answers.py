"""R9 and R12: a worker that stands still past its lease and wakes up with an answer; a key that has run out."""

from __future__ import annotations

import signal
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.workers.faults import Point
from tests.support.desk import OLGA
from tests.support.eventually import eventually
from tests.support.provider import Way
from tests.support.scene import Call, Scene
from tests.support.worker_process import Strike, WorkerProcess

pytestmark = pytest.mark.anyio


async def test_a_late_success_settles_doubt_and_nobody_has_to(scene: Scene) -> None:
    job_id, sleeper = await _asleep(scene, ("mail", {"ref": "late-1", "ask": True}), Point.after_answer)
    await scene.desk.effect(job_id, "mail", EffectStatus.in_doubt)
    rescuer = scene.worker()
    await scene.desk.until(job_id, JobStatus.awaiting_operator)
    await _wake(sleeper)
    assert (await scene.desk.until(job_id)).status is JobStatus.succeeded
    (evidence,) = await _evidence(scene, job_id)
    assert (evidence["outcome"], evidence["settled"]) == ("succeeded", True)
    assert await scene.done("mail", "late-1") == 1
    assert await _operated(scene, job_id) == []
    await scene.judge()
    rescuer.kill()


async def test_a_late_success_against_what_an_operator_has_said_is_an_alarm(scene: Scene) -> None:
    """The operator was told "not applied" by somebody, and had it skipped."""
    job_id, sleeper = await _asleep(scene, ("mail", {"ref": "late-2", "ask": True}), Point.after_answer)
    effect = await scene.desk.effect(job_id, "mail", EffectStatus.in_doubt)
    rescuer = scene.worker()
    await scene.desk.until(job_id, JobStatus.awaiting_operator)
    await scene.desk.skip(effect, "It was written by hand.")
    await scene.desk.until(job_id)
    await _wake(sleeper)
    (alarm,) = await scene.desk.sql("SELECT * FROM signoff.alarms WHERE job_id = %s", job_id)
    assert alarm["kind"] == "contradiction"
    assert str((await scene.desk.effects(job_id))["mail"].status) == "skipped"
    await scene.judge()
    rescuer.kill()


async def test_a_call_that_was_sent_again_meanwhile_raises_an_alarm_and_is_done_once_by_its_key(scene: Scene) -> None:
    call: Call = ("pay", {"ref": "late-3", "amount": 5.0, "ask": True})
    job_id, sleeper = await _asleep(scene, call, Point.after_answer)
    rescuer = scene.worker()
    assert await scene.ended(job_id) is JobStatus.succeeded
    await _wake(sleeper)
    (evidence,) = await _evidence(scene, job_id)
    assert (evidence["outcome"], evidence["settled"]) == ("succeeded", False)
    (alarm,) = await scene.desk.sql("SELECT * FROM signoff.alarms WHERE job_id = %s", job_id)
    assert alarm["kind"] == "duplicate"
    assert await scene.done("pay", "late-3") == 1
    await scene.judge()
    rescuer.kill()


async def test_a_worker_that_wakes_up_before_it_has_sent_does_not_send(scene: Scene) -> None:
    calls: list[Call] = [("mail", {"ref": "late-4", "ask": True})]
    job_id, sleeper = await _asleep(scene, calls[0], Point.after_dispatch)
    rescuer = scene.worker()
    await scene.desk.effect(job_id, "mail", EffectStatus.in_doubt)
    await _wake(sleeper)
    assert await scene.ended(job_id) is JobStatus.succeeded
    assert await scene.done("mail", "late-4") == 1
    await scene.judge()
    rescuer.kill()


async def test_nothing_is_sent_with_a_key_that_has_run_out(scene: Scene) -> None:
    """R12: three hours pass while the effect is in doubt; its key is honoured for two."""
    scene.provider.plan("old-key", Way.reply_lost)
    call: Call = ("pay", {"ref": "old-key", "amount": 5.0, "ask": True})
    struck = scene.worker(Strike(Point.after_answer))
    job_id = await scene.submit([call])
    await scene.approve(job_id)
    await eventually(lambda: struck.exit_code is not None, within_seconds=15)
    await scene.desk.effect(job_id, "pay", EffectStatus.in_doubt)
    await scene.desk.sql(
        "UPDATE signoff.effects SET first_dispatched_at = first_dispatched_at - interval '3 hours' WHERE job_id = %s",
        job_id,
    )
    scene.provider.forget_keys()
    rescuer = scene.worker()
    held = await scene.desk.until(job_id, JobStatus.awaiting_operator)
    assert held.error_code == "effect_held"
    assert (await scene.desk.effects(job_id))["pay"].attempts == 1
    assert len([one for one in scene.provider.requests() if one["ref"] == "old-key"]) == 1
    assert await scene.ended(job_id) is JobStatus.succeeded
    assert await scene.done("pay", "old-key") == 1
    await scene.judge()
    rescuer.kill()


async def _asleep(scene: Scene, call: Call, point: Point) -> tuple[UUID, WorkerProcess]:
    sleeper = scene.worker(Strike(point, signal.SIGSTOP))
    job_id = await scene.submit([call])
    await scene.approve(job_id)
    await eventually(lambda: sleeper.stands_still, within_seconds=15, message="the worker was not stopped")
    return job_id, sleeper


async def _wake(sleeper: WorkerProcess) -> None:
    """Until it has given up its run: it can drain."""
    sleeper.send(signal.SIGCONT)
    assert await sleeper.drain() == 0


async def _evidence(scene: Scene, job_id: UUID) -> list[dict[str, Any]]:
    return await scene.desk.sql(
        "SELECT v.* FROM signoff.evidence v JOIN signoff.effects e USING (operation_id) WHERE e.job_id = %s", job_id
    )


async def _operated(scene: Scene, job_id: UUID) -> list[dict[str, Any]]:
    return await scene.desk.sql(
        "SELECT 1 FROM signoff.effect_events v JOIN signoff.effects e USING (operation_id)"
        " WHERE e.job_id = %s AND v.actor = %s",
        job_id,
        OLGA.name,
    )
