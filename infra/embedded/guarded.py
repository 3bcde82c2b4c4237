"""The owner's side of the guard."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded import guard
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.home import ServerHome
from signoff.infra.embedded.owning import end_guard, start_guarded

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
        process, pid = start_guarded(_spec(home, account, launch), home.fresh_log(), EmbeddedServerFailed)
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
            end_guard(self._guard)


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
