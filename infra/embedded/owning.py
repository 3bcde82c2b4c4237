"""Starting a guard with what it guards, and ending it: the owner's side, for servers and for processes of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from signoff.domain.errors import Unavailable
from signoff.infra.embedded import guard


def start_guarded(
    spec: guard.ServerSpec, log_fd: int, failed: type[Unavailable]
) -> tuple[subprocess.Popen[bytes], int]:
    """The guard's process and the id of what it guards, whose output goes to `log_fd`, which is closed here.

    Raises:
        failed: there is no such program, or its guard has ended.
    """
    process = _start_guard(spec.lock_fd, log_fd)
    try:
        return process, _hand_over(process, spec, failed)
    except BaseException:
        end_guard(process)
        raise


def end_guard(process: subprocess.Popen[bytes]) -> None:
    """After this neither the guard nor its pipes exist; what it guards goes with it."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _start_guard(lock_fd: int, log_fd: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(guard.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_fd,
            pass_fds=(lock_fd,),
            start_new_session=True,  # Ctrl-C in the owner's terminal must not reach it
        )
    finally:
        os.close(log_fd)


def _hand_over(process: subprocess.Popen[bytes], spec: guard.ServerSpec, failed: type[Unavailable]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    os.write(process.stdin.fileno(), json.dumps(asdict(spec)).encode() + b"\n")
    word, _, rest = process.stdout.readline().decode().strip().partition(" ")
    if word != "started":
        raise failed(f"{spec.command[0]} can't be started: {rest or 'its guard ended'}")
    return int(rest)
