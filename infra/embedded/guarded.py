"""The owner's side of the guard."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded import guard
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.home import ServerHome

Escalation = Sequence[tuple[int, float]]
_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Launch:
    """A server's command, what it reads from its standard input, and the signals that end it, gentlest first."""

    command: list[str]
    escalation: Escalation
    stdin: str = ""


class GuardedServer:
    """A running server with its guard."""

    def __init__(self, guard_process: subprocess.Popen[bytes], pid: int, patience_seconds: float) -> None:
        self._guard = guard_process
        self._patience = patience_seconds
        self.pid = pid

    @classmethod
    def start(cls, home: ServerHome, account: Account, launch: Launch) -> GuardedServer:
        process = _start_guard(home)
        try:
            pid = _hand_over(process, _spec(home, account, launch))
        except BaseException:
            _end(process)
            raise
        return cls(process, pid, sum(seconds for _, seconds in launch.escalation) + _GRACE_SECONDS)

    @property
    def running(self) -> bool:
        return self._guard.poll() is None

    def stop(self, first: int = 0) -> None:
        """End the server, beginning with the signal number `first` of the escalation. Done when its guard is gone."""
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it may have ended by itself
            os.write(self._guard.stdin.fileno(), str(first).encode())
        try:
            self._guard.wait(self._patience)
        finally:
            _end(self._guard)


def server_environment() -> dict[str, str]:
    """Nothing of ours: variables like PGDATA change what the server does, and our secrets are none of its business."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _spec(home: ServerHome, account: Account, launch: Launch) -> guard.ServerSpec:
    return guard.ServerSpec(
        owner_pid=os.getpid(),
        command=launch.command,
        environment=server_environment(),
        folder=str(home.data),
        user=account.user,
        group=account.group,
        stdin=launch.stdin,
        lock_fd=home.lock_fd,
        escalation=list(launch.escalation),
        removed_when_orphaned=str(home.folder) if home.throwaway else None,
    )


def _start_guard(home: ServerHome) -> subprocess.Popen[bytes]:
    log = home.fresh_log()
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(guard.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(home.lock_fd,),
            start_new_session=True,  # Ctrl-C in the owner's terminal must not reach it
        )
    finally:
        os.close(log)


def _hand_over(process: subprocess.Popen[bytes], spec: guard.ServerSpec) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    os.write(process.stdin.fileno(), json.dumps(asdict(spec)).encode() + b"\n")
    word, _, rest = process.stdout.readline().decode().strip().partition(" ")
    if word != "started":
        raise EmbeddedServerFailed(f"{spec.command[0]} can't be started: {rest or 'its guard ended'}")
    return int(rest)


def _end(process: subprocess.Popen[bytes]) -> None:
    """After this neither the guard nor its pipes exist; the server goes with the guard."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
