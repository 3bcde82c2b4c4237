"""A real `signoff up` and other commands in processes of their own, and what they start, seen from outside (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.eventually import eventually_sync
from tests.support.processes import REPOSITORY, arguments_of, lives, parent_of

SIGNOFF = [sys.executable, "-m", "signoff.infra.cli"]
READY_SECONDS = 60.0
# In place of the machine's own settings, which say where its proxies are and what not.
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


def clean_environment(**settings: str) -> dict[str, str]:
    """Settings are named without SIGNOFF_; those in lower case are not ours and stay as they are, in upper case."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    named = {(f"SIGNOFF_{name}" if name.isupper() else name.upper()): value for name, value in settings.items()}
    return {**kept, **named}


class Running:
    """A command that was started; what it says goes to a file, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def await_words(self, words: str, within_seconds: float = READY_SECONDS) -> None:
        """Returns when it has said them; fails at once if it ends without."""
        eventually_sync(
            lambda: words in self.said or self.process.poll() is not None,
            within_seconds=within_seconds,
            message=lambda: self.said,
        )
        assert words in self.said, self.said

    def end(self, number: int = signal.SIGINT, within_seconds: float = 40.0) -> int:
        """Its exit code after that signal."""
        self.process.send_signal(number)
        return self.process.wait(within_seconds)

    def descendants(self) -> dict[int, str]:
        """Everything that it has started, guards and servers included: arguments by pid."""
        parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
        found: dict[int, str] = {}
        generation = {self.pid}
        while generation:
            generation = {pid for pid, parent in parents.items() if parent in generation}
            found.update((pid, arguments_of(pid).replace("\0", " ")) for pid in generation if lives(pid))
        return found


def await_gone(pids: Mapping[int, str], within_seconds: float = 40.0) -> None:
    eventually_sync(
        lambda: not any(map(lives, pids)),
        within_seconds=within_seconds,
        message=lambda: str({pid: words for pid, words in pids.items() if lives(pid)}),
    )


def _clear(pids: Mapping[int, str]) -> None:
    """Fails the test that leaves something behind, without leaving it to the next one."""
    try:
        await_gone(pids)
    finally:
        for pid in filter(lives, pids):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def started(folder: Path, *arguments: str, **settings: str) -> Iterator[Running]:
    """The command in a process group of its own; killed at the end if it still runs, with what it has started."""
    output = folder / f"{arguments[0]}.out"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [*SIGNOFF, *arguments],
            cwd=REPOSITORY,
            env=clean_environment(**settings),
            stdout=log,
            stderr=log,
            process_group=0,
        )
    running = Running(process, output)
    try:
        yield running
    finally:
        left = running.descendants()
        process.kill()
        process.wait()
        _clear(left)


def _parent(pid: int) -> int:
    try:
        return parent_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0
