"""State folders and the lock on them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded import default_state_folder
from signoff.infra.embedded.account import Account
from signoff.infra.embedded.home import ServerHome
from signoff.infra.embedded.lock import FolderLock


def test_the_users_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_state_folder() == Path("/home/ann/.local/state/signoff")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_state_folder() == Path("/var/lib/signoff")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert default_state_folder() == Path("/elsewhere/signoff")


def test_a_held_lock_refuses_and_names_the_holder(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / "lock"), FolderLock(tmp_path / "lock")
    first.acquire()
    with pytest.raises(EmbeddedServerFailed, match=f"in use by process {os.getpid()}"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_what_the_dead_left_running_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / "lock"), FolderLock(tmp_path / "lock", patience_seconds=0.1)
    first.acquire()
    (tmp_path / "lock").write_text("4194305")  # above the largest process id
    with pytest.raises(EmbeddedServerFailed, match="in use by process 4194305"):
        second.acquire()
    first.release()


def test_a_password_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    home = ServerHome("postgres", tmp_path, Account())
    password = home.password()
    file = tmp_path / "postgres.password"
    assert len(password) >= 40
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ServerHome("postgres", tmp_path, Account()).password() == password
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_folders_that_exist_keep_their_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    home = ServerHome("postgres", tmp_path / "a" / "b", Account())
    home.open()
    home.close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_one_log_before_this_one_is_kept(tmp_path: Path) -> None:
    home = ServerHome("postgres", tmp_path, Account())
    for text in (b"first", b"second"):
        log = home.fresh_log()
        os.write(log, text)
        os.close(log)
    assert home.log_tail() == "second"
    assert (tmp_path / "postgres.log.1").read_text() == "first"
