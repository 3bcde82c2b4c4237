"""Looking at processes and ports from outside (Linux)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Owner = subprocess.Popen[str]
_LISTENING = "0A"
REPOSITORY = Path(__file__).parents[2]


def lives(pid: int) -> bool:
    """Whether the process runs; a zombie that its parent has not collected doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def listening_addresses(port: int) -> list[str]:
    """The addresses on which anybody listens on `port`; an IPv6 one as the kernel writes it."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    local = [words[1].split(":") for words in lines if words[3] == _LISTENING]
    return [_dotted(address) for address, number in local if int(number, 16) == port]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def user_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}").st_uid


def arguments_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def _dotted(address: str) -> str:
    return socket.inet_ntoa(bytes.fromhex(address)[::-1]) if len(address) == 8 else address


@contextmanager
def embedded_owner(*arguments: str, under: Sequence[str] = ()) -> Iterator[tuple[Owner, dict[str, Any]]]:
    """A real owner of embedded servers in a process group of its own, and what it says it started."""
    command = [*under, sys.executable, "-m", "tests.support.embedded_owner", *arguments]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as owner:
        try:
            yield owner, _first_answer(owner)
        finally:
            owner.kill()


def _first_answer(owner: Owner) -> dict[str, Any]:
    assert owner.stdout is not None
    assert owner.stderr is not None
    line = owner.stdout.readline()
    assert line, owner.stderr.read()
    answer: dict[str, Any] = json.loads(line)
    return answer
