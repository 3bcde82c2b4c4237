"""The wheel, installed by pip into a clean environment and used from a folder that is no checkout."""

from __future__ import annotations

import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.packaging.tree import run

# Alembic runs this file; it can't be imported by itself.
NOT_IMPORTABLE = "signoff.infra.postgres.migrations.env"
IMPORT_ALL = f"""
import importlib, pkgutil, signoff
assert signoff.__spec__.origin is None, "the root is a namespace"
for module in pkgutil.walk_packages(signoff.__path__, "signoff."):
    if module.name != {NOT_IMPORTABLE!r} and not module.name.endswith(".__main__"):
        print(importlib.import_module(module.name).__file__)
"""


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new venv with the wheel; its dependencies are those of this one, without our editable install."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    # A path from a .pth file is searched, but its own .pth files, and so the editable hook, are not run.
    site_packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_every_module_imports_from_the_installed_wheel(environment: Path, tmp_path: Path) -> None:
    printed = run(environment / "bin" / "python", "-I", "-c", IMPORT_ALL, cwd=tmp_path)
    files = [Path(line) for line in printed.splitlines()]
    assert {"domain", "infra", "workers"} <= {file.parent.name for file in files if file.name == "__init__.py"}
    assert [file for file in files if not file.is_relative_to(environment)] == []


def test_the_command_starts(environment: Path, tmp_path: Path) -> None:
    assert "migrate" in run(environment / "bin" / "signoff", "--help", cwd=tmp_path)
