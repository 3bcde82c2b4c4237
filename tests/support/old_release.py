"""The last release, taken out of the history: its code, and its commands as processes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from tests.support.processes import REPOSITORY
from tests.support.up import Running, clean_environment

COMMIT = "d10f80c3a48559f16dbf94450d8cea95e0ebaca4"
SCHEMA = "0005"
ROOMS = ("domain", "infra", "workers")


def extract(folder: Path) -> str | None:
    """Puts its tree into the folder. Returns why it can't: a shallow clone has no history."""
    command = ["git", "-C", str(REPOSITORY), "archive", COMMIT, *ROOMS, "examples"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60)
    except OSError as error:
        return f"git can't be run: {error}"
    if done.returncode != 0:
        return f"the history does not reach back to the last release: {done.stderr.decode().strip()}"
    with tarfile.open(fileobj=BytesIO(done.stdout)) as tree:
        tree.extractall(folder, filter="data")
    rooms = folder / "rooms" / "signoff"
    rooms.mkdir(parents=True)
    for room in ROOMS:
        (rooms / room).symlink_to(folder / room)
    return None


def _start(tree: Path, log: Path, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
    old = tree != REPOSITORY
    # Found before the installed package: a path of its own comes first.
    path = {"PYTHONPATH": f"{tree / 'rooms'}:{tree}"} if old else {}
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "signoff.infra.cli", *arguments],
            cwd=tree,
            env={**clean_environment(**settings), **path},
            stdout=output,
            stderr=output,
            process_group=0,
        )


@contextmanager
def running(tree: Path, log: Path, *arguments: str, **settings: str) -> Iterator[Running]:
    """A command of the release whose tree it is, until the end of the block."""
    process = _start(tree, log, *arguments, **settings)
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()


def run(tree: Path, log: Path, *arguments: str, **settings: str) -> int:
    """The exit code of a command that ends by itself."""
    return _start(tree, log, *arguments, **settings).wait(60)
