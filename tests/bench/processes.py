"""The processes that are measured, and what they cost: a worker and a dispatcher, as a deployment starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from signoff.infra.addresses import Addresses

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def process(what: str, addresses: Addresses, logs: Path, **settings: str) -> Iterator[int]:
    """Runs `python -m signoff.workers worker|dispatcher`; yields its process id."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SIGNOFF_")},
        "SIGNOFF_DATABASE_URL": addresses.database_url,
        "SIGNOFF_REDIS_URL": addresses.redis_url,
        "SIGNOFF_AGENTS": "tests.bench.agent:agent",
        "SIGNOFF_LOG_LEVEL": "warning",
        **settings,
    }
    with (logs / f"{what}.log").open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "signoff.workers", what], env=environment, stdout=log, stderr=log
        )
        try:
            yield started.pid
        finally:
            started.send_signal(signal.SIGTERM)
            try:
                started.wait(timeout=30)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its children that live."""
    return sum(_cpu_of(one) for one in [pid, *_children(pid)])


def resident_bytes(pid: int) -> int:
    return sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) * PAGE for one in [pid, *_children(pid)])


def postgres_cpu_seconds(postmaster: int) -> float:
    """The server's processes, those that have ended too."""
    fields = _stat(postmaster)
    ended = (int(fields[13]) + int(fields[14])) / TICKS
    return ended + sum(_cpu_of(one) for one in _children(postmaster))


def _cpu_of(pid: int) -> float:
    try:
        fields = _stat(pid)
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += [int(child) for child in task.read_text().split()]
    return children
