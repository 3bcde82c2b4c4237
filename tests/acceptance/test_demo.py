"""The demo, as somebody runs it who has just cloned the repository."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.eventually import eventually_sync
from tests.support.processes import REPOSITORY

DEMO = [sys.executable, "-m", "examples.support_desk.demo"]
SECONDS = 110
CHECKS = 5


@pytest.fixture
def environment(open_folder: Path) -> dict[str, str]:
    """Everything that the demo leaves behind would be in `open_folder`, or name it."""
    return {**os.environ, "TMPDIR": str(open_folder), "COLUMNS": "200"}


def left_behind(folder: Path) -> list[str]:
    """Files in the folder, and processes that name it."""
    mine = os.fsencode(folder)
    processes = [path.parent for path in Path("/proc").glob("[0-9]*/environ") if mine in _read(path)]
    others = [str(process) for process in processes if process.name != str(os.getpid())]
    return [*others, *(str(path) for path in folder.iterdir())]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # gone meanwhile


def test_it_decides_by_itself_and_each_thing_happens_once(environment: dict[str, str], open_folder: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--auto"], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓") == CHECKS + 1
    for words in ("re_0003", "Mailed ada@example.com", "decided send_email: reject by rita", "Everything is stopped"):
        assert words in done.stdout
    assert left_behind(open_folder) == []


@contextmanager
def at_a_terminal(environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The demo in a terminal of its own, and the terminal's other end."""
    ours, its = pty.openpty()
    with subprocess.Popen(DEMO, cwd=REPOSITORY, env=environment, stdin=its, stdout=its, stderr=its) as demo:
        os.close(its)
        try:
            yield demo, ours
        finally:
            demo.kill()
            os.close(ours)


def read_until(terminal: int, words: str) -> str:
    """What the terminal shows until then; all of it if that never comes."""
    shown = b""
    while words.encode() not in shown:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            break  # the demo has ended
    return shown.decode(errors="replace")


def test_a_person_who_agrees_with_everything_gets_there_too(environment: dict[str, str], open_folder: Path) -> None:
    with at_a_terminal(environment) as (demo, terminal):
        # More than it asks: each line takes what is proposed.
        os.write(terminal, b"\n" * 30)
        shown = read_until(terminal, "Everything is stopped")
        assert demo.wait(SECONDS) == 0, shown
    assert "Your decision, rita" in shown
    assert shown.count("✓") == CHECKS
    assert left_behind(open_folder) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_stops_it_finds_nothing_left(
    environment: dict[str, str], open_folder: Path, number: signal.Signals
) -> None:
    with at_a_terminal(environment) as (demo, terminal):
        assert "Your decision, rita" in (shown := read_until(terminal, "Your decision, rita")), shown
        demo.send_signal(number)
        assert "Stopped; nothing is left running." in read_until(terminal, "left running.")
        assert demo.wait(SECONDS) == 130
    eventually_sync(lambda: left_behind(open_folder) == [], message=lambda: str(left_behind(open_folder)))


def test_what_is_wrong_is_said_in_a_sentence(environment: dict[str, str], open_folder: Path) -> None:
    wrong = {**environment, "SIGNOFF_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    done = subprocess.run(
        [*DEMO, "--auto"], cwd=REPOSITORY, env=wrong, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 1
    assert "The demo failed" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert left_behind(open_folder) == []
