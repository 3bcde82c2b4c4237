"""Where the checkout is, what a build reads from it, and how a test runs a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "infra", "workers")
BUILD_FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
NOT_SHIPPED = ("infra/docker",)


def copy_build_inputs(target: Path) -> None:
    """Copy the rooms and the build files, without what earlier builds left: setuptools would ship it."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, target / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, target / name)


def room_files(tree: Path) -> set[str]:
    """The files of the rooms that belong in a wheel, under the names that they have there."""
    found = (path.relative_to(tree) for room in ROOMS for path in (tree / room).rglob("*") if path.is_file())
    return {
        f"signoff/{path}" for path in found if not str(path.parent).startswith(NOT_SHIPPED) and path.suffix != ".md"
    }


def run(*command: str | Path, cwd: Path) -> str:
    """What the command prints. Fails the test with everything it said unless it exits 0."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
