"""The guard of one embedded server: a process of its own, so that the server ends with its owner, whatever happens.

Run as a script with the standard library alone. It reads a `ServerSpec` as one line of JSON from its standard input,
starts the server, prints `started <pid>` or `failed <why>`, and waits. It stops the server when the owner orders it,
when the pipe from the owner closes, or when its parent is no longer the owner. It exits when the server has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

ORPHANED = -1
_TICK_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ServerSpec:
    """What to run and how to end it. `escalation` is tried from the front: a signal, and the seconds it is given."""

    owner_pid: int
    command: list[str]
    environment: dict[str, str]
    folder: str
    user: int | None
    group: int | None
    stdin: str
    lock_fd: int
    escalation: list[tuple[int, float]]
    removed_when_orphaned: str | None


class Guard:
    """Starts the server and keeps watch over it and its owner."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._terminated = False

    def run(self) -> int:
        self._outlive_the_terminal()
        try:
            server = self._launch()
        except (OSError, subprocess.SubprocessError) as error:
            _report(f"failed {error}")
            return 1
        _report(f"started {server.pid}")
        return self._watch(server)

    def _outlive_the_terminal(self) -> None:
        # Handlers and not SIG_IGN, which the server would inherit.
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_terminate)

    def _on_terminate(self, *_: object) -> None:
        self._terminated = True

    def _launch(self) -> subprocess.Popen[bytes]:
        spec = self._spec
        server = subprocess.Popen(
            spec.command,
            env=spec.environment,
            cwd=spec.folder,
            user=spec.user,
            group=spec.group,
            extra_groups=None if spec.user is None else [],
            stdin=subprocess.PIPE,
            stdout=sys.stderr.fileno(),
            stderr=sys.stderr.fileno(),
            pass_fds=(spec.lock_fd,),  # the lock lasts until the last process of the server is gone
            preexec_fn=_die_with_guard(os.getpid(), spec.escalation[0][0]),
        )
        _feed(server, spec.stdin)
        return server

    def _watch(self, server: subprocess.Popen[bytes]) -> int:
        while server.poll() is None:
            order = self._next_order()
            if order is not None:
                self._stop(server, max(order, 0))
                if order == ORPHANED and self._spec.removed_when_orphaned:
                    shutil.rmtree(self._spec.removed_when_orphaned, ignore_errors=True)
        return 0 if server.returncode == 0 else 1

    def _next_order(self) -> int | None:
        """Where in the escalation to begin, `ORPHANED`, or nothing within one tick."""
        if self._terminated or os.getppid() != self._spec.owner_pid:
            return ORPHANED
        readable, _, _ = select.select([0], [], [], _TICK_SECONDS)
        if not readable:
            return None
        order = os.read(0, 16)
        return int(order) if order else ORPHANED

    def _stop(self, server: subprocess.Popen[bytes], first: int) -> None:
        for number, seconds in self._spec.escalation[first:]:
            server.send_signal(number)
            try:
                server.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue


def _die_with_guard(guard: int, number: int) -> Callable[[], None]:
    """For the child between fork and exec: the kernel sends it `number` when the guard dies (Linux only)."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        # After the change of user, which would clear it.
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != guard:
            os._exit(1)

    return prepare


def _feed(server: subprocess.Popen[bytes], text: str) -> None:
    assert server.stdin is not None
    # A server that ended at once has not read it; its exit and its log tell why.
    with contextlib.suppress(BrokenPipeError), server.stdin as pipe:
        pipe.write(text.encode())


def _report(line: str) -> None:
    try:
        os.write(1, f"{line}\n".encode())
    except OSError:
        return  # nobody listens any more; the watch notices that too


def _read_line() -> bytes:
    """The first line of standard input, byte by byte: what follows it must stay visible to `select`."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> int:
    line = _read_line()
    return Guard(ServerSpec(**json.loads(line))).run() if line else 1


if __name__ == "__main__":
    sys.exit(main())
