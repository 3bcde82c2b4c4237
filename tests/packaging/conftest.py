"""The wheel and the sdist, each built once a session from a clean copy of the tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging.tree import copy_build_inputs, run


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of what a build reads."""
    folder = tmp_path_factory.mktemp("tree")
    copy_build_inputs(folder)
    return folder


@pytest.fixture(scope="session")
def sdist(snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("--sdist", snapshot, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("--wheel", snapshot, tmp_path_factory.mktemp("wheel"))


def build(kind: str, tree: Path, out: Path) -> Path:
    """The one archive that building `tree` leaves in `out`, with the tools of this environment."""
    run(sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", out, tree, cwd=out)
    (archive,) = out.iterdir()
    return archive
