"""R14: workers whose clocks are ten minutes ahead and behind. Leases, retries and order go by the database's clock.

There is no libfaketime here: a `sitecustomize` of a worker moves `time.time` and `time.time_ns`, from which the ids of
checkpoints and the times of Celery are made. Clocks that C code reads by itself, as `datetime.now` does, stay.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from signoff.domain.jobs import JobStatus
from tests.support.processes import REPOSITORY
from tests.support.scene import Scene, four
from tests.support.up import clean_environment

pytestmark = pytest.mark.anyio

SHIFT = """
import time
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + {seconds}
time.time_ns = lambda: real_ns() + {seconds} * 10**9
"""


async def test_jobs_go_from_one_worker_to_the_other(scene: Scene, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for seconds in (600, -600):
            stack.enter_context(_worker(scene, tmp_path, seconds))
        jobs = [await scene.submit(four(f"clocks-{number}"), f"clocks-{number % 4}") for number in range(4)]
        for job_id in jobs:
            await scene.approve(job_id)
        assert [await scene.ended(job_id) for job_id in jobs] == [JobStatus.succeeded] * len(jobs)
        # The same threads go on, whoever wrote their last checkpoint.
        later = [await scene.submit(four(f"clocks-b{number}"), f"clocks-{number % 4}") for number in range(4)]
        for job_id in later:
            await scene.approve(job_id)
        assert [await scene.ended(job_id) for job_id in later] == [JobStatus.succeeded] * len(later)
    (row,) = await scene.desk.sql(
        "SELECT count(*) AS n FROM signoff.jobs WHERE abs(extract(epoch FROM ended_at - clock_timestamp())) > 300"
        " OR abs(extract(epoch FROM claimed_at - clock_timestamp())) > 300"
    )
    assert row["n"] == 0
    assert len(await scene.desk.messages(jobs[0])) > len(four("one"))
    await scene.judge()


@contextmanager
def _worker(scene: Scene, folder: Path, seconds: int) -> Iterator[None]:
    place = folder / str(seconds)
    place.mkdir()
    (place / "sitecustomize.py").write_text(SHIFT.format(seconds=seconds))
    environment = {**clean_environment(), **scene.desk.environment}
    environment["PYTHONPATH"] = os.pathsep.join([str(place), *(path for path in sys.path if path)])
    with (scene.desk.folder / f"worker-{seconds}.log").open("wb") as log:
        command = [sys.executable, "-m", "signoff.workers", "worker"]
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log, process_group=0)
    try:
        yield
    finally:
        process.kill()
        process.wait()
