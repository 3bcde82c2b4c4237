"""A real Celery worker in a process of its own, forked from a server that has everything imported already."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from signoff.workers.faults import Point


@dataclass(frozen=True, slots=True)
class Strike:
    """What happens to the worker itself when it reaches `point` for the `nth` time.

    Of a worker that forks it hits the child that gets there, or with `parent` the parent of it. With `marker`, a file
    that is made then, it happens once for all children.
    """

    point: Point
    sign: signal.Signals = signal.SIGKILL
    nth: int = 1
    parent: bool = False
    marker: Path | None = None


class Striking:
    """Faults of a worker under test."""

    def __init__(self, strike: Strike | None) -> None:
        self._strike = strike
        self._reached = 0

    async def reach(self, point: Point) -> None:
        if self._strike is None or point is not self._strike.point:
            return
        self._reached += 1
        if self._reached == self._strike.nth and self._is_first(self._strike.marker):
            self._hit(self._strike)

    def _is_first(self, marker: Path | None) -> bool:
        if marker is None:
            return True
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _hit(self, strike: Strike) -> None:
        if strike.parent:
            os.kill(os.getppid(), strike.sign)
            return
        # To this thread: a signal to the process may leave it running for a while.
        signal.pthread_kill(threading.get_ident(), strike.sign)


class WorkerProcess:
    """Starts at once; ends by `drain` (SIGTERM), `kill`, or its own strike."""

    def __init__(self, environment: Mapping[str, str], strike: Strike | None = None) -> None:
        self._process: BaseProcess = _forkserver().Process(target=_serve, args=(dict(environment), strike))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal that killed it."""
        return self._process.exitcode

    @property
    def stands_still(self) -> bool:
        """Whether a signal has stopped it (Linux)."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def send(self, sign: signal.Signals) -> None:
        if self._process.is_alive():
            os.kill(self.pid, sign)

    async def drain(self, within_seconds: float = 15.0) -> int:
        """Asks it to stop as an orchestrator does; returns its exit code."""
        self.send(signal.SIGTERM)
        await asyncio.to_thread(self._process.join, within_seconds)
        code = self._process.exitcode
        self.kill()
        assert code is not None, f"the worker did not stop within {within_seconds} s of SIGTERM"
        return code

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(5)


def warm_up() -> None:
    """Starts the server that workers are forked from: it takes seconds, once."""
    process = _forkserver().Process(target=_nothing)
    process.start()
    process.join()


def _nothing() -> None:
    return None


def _forkserver() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["signoff.workers.app", "tests.support.desk_agents", "tests.support.worker_process"])
    return context


def _serve(environment: dict[str, str], strike: Strike | None) -> None:
    # Imported by the server that this process was forked from, so free here.
    from signoff.infra.addresses import resolve  # noqa: PLC0415
    from signoff.infra.settings import Settings  # noqa: PLC0415
    from signoff.workers.app import run_worker  # noqa: PLC0415

    log = os.open(environment.pop("WORKER_LOG"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(environment)
    settings = Settings()
    sys.exit(run_worker(settings, resolve(settings), Striking(strike)))
