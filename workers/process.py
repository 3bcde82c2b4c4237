"""Everything that one worker process holds: its loop, its pool, its heartbeat, its runners. Made after any fork."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Any
from uuid import UUID, uuid4

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.postgres.workers import Presence
from signoff.infra.services import Services
from signoff.infra.settings import Settings
from signoff.workers.alone import LoneRunner
from signoff.workers.faults import Faults
from signoff.workers.heartbeat import Announced, Heartbeat
from signoff.workers.loop import LoopThread
from signoff.workers.runs import Limits, Runner
from signoff.workers.serving import Served


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker process is made of; a test may bring its own faults.

    `draining` says that all processes of the worker are to drain; `drain` has them do so.
    """

    settings: Settings
    addresses: Addresses
    agents: Mapping[str, Served]
    faults: Faults
    draining: Callable[[], bool]
    drain: Callable[[], None]


class WorkerProcess:
    """One process of a worker. `close` waits for nothing but its own parts: drain first."""

    def __init__(self, parts: Parts) -> None:
        settings = parts.settings
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._parts = parts
        self._loop = LoopThread("signoff-loop")
        self._stack = AsyncExitStack()
        self.services: Services = self._loop.run(
            self._stack.enter_async_context(
                open_services(settings, parts.addresses, pool_size=settings.database_pool_size)
            )
        )
        lease = timedelta(seconds=settings.lease_seconds)
        self._busy = 0
        self._counting = threading.Lock()
        presence = Presence(self.name, sorted(parts.agents), version("signoff"))
        announced = Announced(presence, parts.drain, self._is_drained)
        self._heartbeat = Heartbeat(parts.addresses.database_url, lease, self._look, announced)
        store, hints = self.services.store, self.services.hints
        limits = Limits(lease, settings.max_tries, settings.environment, settings.drain_seconds)
        tracing = self.services.tracing
        self.runner = Runner(store, parts.agents, self._heartbeat, hints, limits, self.name, parts.faults, tracing)
        alone = timedelta(seconds=settings.wall_clock_seconds)
        self._alone = LoneRunner(
            store, parts.agents, settings.environment, self.name, lease=alone, drain_seconds=settings.drain_seconds
        )
        self._heartbeat.start()

    def run_job(self, job_id: str) -> None:
        """Nothing, if the process drains: others are told of the job again."""
        with self._at_work():
            if not self._parts.draining():
                self._loop.run(self.runner.run_hinted(UUID(job_id)))

    def run_effect(self, operation_id: str) -> None:
        """The same for an effect that runs by itself."""
        with self._at_work():
            if not self._parts.draining():
                self._loop.run(self._alone.run(operation_id))

    def run_intake(self, work: Callable[[Services], Coroutine[Any, Any, None]]) -> None:
        with self._at_work():
            self._loop.run(work(self.services))

    def close(self) -> None:
        self._heartbeat.stop()
        self._loop.run(self._stack.aclose())
        self._loop.close()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._counting:
            self._busy += 1
        try:
            yield
        finally:
            with self._counting:
                self._busy -= 1

    def _is_drained(self) -> bool:
        return self._parts.draining() and self._busy == 0

    def _look(self) -> None:
        if self._parts.draining():
            self.runner.drain()
            self._alone.drain()


class ProcessOf:
    """The WorkerProcess of whichever process asks: made once in each, also after a fork."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._made: tuple[int, WorkerProcess] | None = None

    def get(self) -> WorkerProcess:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), WorkerProcess(self._parts))
            return self._made[1]

    def close(self) -> None:
        with self._lock:
            if self._made is not None and self._made[0] == os.getpid():
                self._made[1].close()
            self._made = None
