"""A process of `signoff up`, under a guard of its own, like the embedded servers: it ends with us, whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from signoff.domain.errors import ProcessFailed
from signoff.infra.cli.up.state import StateFolder
from signoff.infra.embedded import guard
from signoff.infra.embedded.owning import end_guard, start_guarded

KILL_SECONDS = 5.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run. After SIGTERM it is given `patience_seconds`, then it is killed."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    patience_seconds: float


class Child:
    """A started process. Its guard leads a session of its own, so that Ctrl-C in our terminal does not reach it."""

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], pid: int) -> None:
        self.name = launch.name
        self.pid = pid
        self._guard = process
        self._patience = launch.patience_seconds + KILL_SECONDS * 2

    @classmethod
    def start(cls, launch: Launch, state: StateFolder) -> Child:
        """Raises ProcessFailed if there is no such program."""
        process, pid = start_guarded(_spec(launch, state), state.fresh_log(launch.name), ProcessFailed)
        return cls(launch, process, pid)

    @property
    def running(self) -> bool:
        return self._guard.poll() is None

    def stop(self, at_once: Callable[[], bool]) -> None:
        """Returns when it is gone: by SIGTERM and patience, or by SIGKILL as soon as `at_once` says so."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it may have ended by itself
            os.write(self._guard.stdin.fileno(), b"0")
        deadline = time.monotonic() + self._patience
        while self.running and not at_once() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if self.running:
            # With all that it has started: they are in the guard's group.
            os.killpg(self._guard.pid, signal.SIGKILL)
        end_guard(self._guard)


def _spec(launch: Launch, state: StateFolder) -> guard.ServerSpec:
    return guard.ServerSpec(
        owner_pid=os.getpid(),
        command=launch.command,
        environment=dict(launch.environment),
        folder=str(Path.cwd()),
        user=None,
        group=None,
        stdin="",
        lock_fd=state.lock_fd,
        escalation=[(signal.SIGTERM, launch.patience_seconds), (signal.SIGKILL, KILL_SECONDS)],
        removed_when_orphaned=None,
    )
