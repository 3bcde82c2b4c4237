"""A process of `signoff up`, under a guard of its own, like the embedded servers: it ends with us, whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from signoff.domain.errors import ProcessFailed
from signoff.infra.cli.up.state import StateFolder
from signoff.infra.embedded import guard

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
        process = _start_guard(launch, state)
        try:
            pid = _hand_over(process, _spec(launch, state))
        except BaseException:
            _end(process)
            raise
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
        _end(self._guard)


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


def _start_guard(launch: Launch, state: StateFolder) -> subprocess.Popen[bytes]:
    log = state.fresh_log(launch.name)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(guard.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(state.lock_fd,),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _hand_over(process: subprocess.Popen[bytes], spec: guard.ServerSpec) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    os.write(process.stdin.fileno(), json.dumps(asdict(spec)).encode() + b"\n")
    word, _, rest = process.stdout.readline().decode().strip().partition(" ")
    if word != "started":
        raise ProcessFailed(f"{spec.command[0]} can't be started: {rest or 'its guard ended'}")
    return int(rest)


def _end(process: subprocess.Popen[bytes]) -> None:
    """After this neither the guard nor its pipes exist; the process goes with the guard."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
