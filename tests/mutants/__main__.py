"""Takes out one guard after the other, in a copy of the tree, and looks whether the tests notice.

    python -m tests.mutants [WORD ...]     only guards whose name holds one of the words

Exits 1 if a guard is missed by no test, or stands no longer where it is looked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.guards import GUARDS, Guard
from tests.mutants.guards_effects import EFFECT_GUARDS

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "infra", "workers")
PARTS = (*ROOMS, "tests", "examples", "docs", "pyproject.toml", "README.md")
SECONDS = 300
TESTS_FAILED = 1


def main(words: list[str]) -> int:
    chosen = [guard for guard in (*GUARDS, *EFFECT_GUARDS) if not words or any(word in guard.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="signoff-mutants-") as name:
        copy = Path(name)
        # Started by root, the tests' database runs as `nobody`, who must be able to pass through.
        copy.chmod(0o711)
        _copy(copy)
        missed = [guard for guard in chosen if not _is_noticed(copy, guard)]
    for guard in missed:
        print(f"NOT NOTICED: {guard.name} ({guard.file})")
    print(f"{len(chosen) - len(missed)} of {len(chosen)} guards are missed when they are gone")
    return 1 if missed else 0


def _copy(copy: Path) -> None:
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy / part)
    # Found before the installed package: a path of its own comes first.
    rooms = copy / "rooms" / "signoff"
    rooms.mkdir(parents=True)
    for room in ROOMS:
        (rooms / room).symlink_to(copy / room)


def _is_noticed(copy: Path, guard: Guard) -> bool:
    path = copy / guard.file
    whole = path.read_text()
    if whole.count(guard.text) != 1:
        print(f"{guard.name}: its text stands {whole.count(guard.text)} times in {guard.file}")
        return False
    path.write_text(whole.replace(guard.text, guard.without))
    try:
        done = _run(copy, guard)
    finally:
        path.write_text(whole)
    noticed = done.returncode == TESTS_FAILED
    print(f"{'noticed' if noticed else 'MISSED'}  {guard.name}: {(done.stdout.strip().splitlines() or ['?'])[-1]}")
    return noticed


def _run(copy: Path, guard: Guard) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(copy / "rooms"), str(copy)))}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *guard.tests]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
