"""However the owner of embedded servers ends, the servers end too."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signoff.infra.embedded.account import Account
from tests.support.eventually import eventually_sync
from tests.support.processes import REPOSITORY, embedded_owner, listens, lives, parent_of, user_of

ORDINARY_USER = 1  # not root, not nobody, and with a name on every system


def test_servers_end_when_the_owner_is_terminated() -> None:
    with embedded_owner("-") as (owner, facts):
        os.kill(owner.pid, signal.SIGTERM)
        _await_no_servers(facts)


def test_ctrl_c_reaches_the_owner_and_not_the_guards(open_folder: Path) -> None:
    with embedded_owner(str(open_folder / "state")) as (owner, facts):
        os.killpg(owner.pid, signal.SIGINT)  # what a terminal does
        owner.wait(15)
        assert not _running(facts), "the owner waits for its servers"
    log = (open_folder / "state" / "postgres.log").read_text()
    assert "received fast shutdown request" in log
    assert "database system is shut down" in log


def test_servers_and_throwaway_data_go_when_the_owner_is_killed_although_its_child_lives_on() -> None:
    with embedded_owner("-", "fork") as (owner, facts):
        os.kill(owner.pid, signal.SIGKILL)
        _await_no_servers(facts)
        assert lives(facts["child"])
        os.kill(facts["child"], signal.SIGKILL)
        folders = [Path(facts[name]["folder"]) for name in ("postgres", "valkey")]
        eventually_sync(lambda: not any(folder.exists() for folder in folders), message="data left behind")


def test_servers_end_when_their_guards_are_killed() -> None:
    with embedded_owner("-") as (owner, facts):
        for name in ("postgres", "valkey"):
            os.kill(parent_of(facts[name]["pid"]), signal.SIGKILL)
        _await_no_servers(facts)
        os.kill(owner.pid, signal.SIGINT)
        owner.wait(15)
        assert not Path(facts["postgres"]["folder"]).exists()


def test_a_second_owner_is_refused_until_the_first_is_gone(open_folder: Path) -> None:
    state = str(open_folder / "state")
    with embedded_owner(state) as (owner, facts):
        second = _run_owner(state)
        assert listens(facts["postgres"]["port"])
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait(15)
        with embedded_owner(state) as (_, facts):
            assert listens(facts["postgres"]["port"])
            assert listens(facts["valkey"]["port"])

    assert second.returncode != 0
    assert second.stderr.startswith("embedded_server_failed: ")
    assert f"in use by process {owner.pid}" in second.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="becomes another user, which takes root")
def test_an_ordinary_user_runs_them_as_itself(users_folder: Path) -> None:
    with embedded_owner(str(users_folder / "state"), under=_as_ordinary_user()) as (owner, facts):
        assert facts["uid"] == ORDINARY_USER
        for name in ("postgres", "valkey"):
            assert user_of(facts[name]["pid"]) == ORDINARY_USER
        assert stat.S_IMODE((users_folder / "state").stat().st_mode) == 0o700
        os.kill(owner.pid, signal.SIGKILL)
        _await_no_servers(facts)


@pytest.fixture
def users_folder(open_folder: Path) -> Path:
    folder = open_folder / "home"
    folder.mkdir(mode=0o700)
    os.chown(folder, ORDINARY_USER, ORDINARY_USER)
    return folder


def _run_owner(folder: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.embedded_owner", folder]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=20)


def _as_ordinary_user() -> list[str]:
    group = pwd.getpwuid(ORDINARY_USER).pw_gid
    words = ["setpriv", f"--reuid={ORDINARY_USER}", f"--regid={group}", "--clear-groups"]
    if not Account(ORDINARY_USER, group).can_enter(Path(sys.executable).resolve().parent):
        # The interpreter lies in a home of root's: let the user read, and no more, what root can read.
        words += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return words


def _running(facts: dict[str, Any]) -> list[str]:
    servers = ("postgres", "valkey")
    return [name for name in servers if lives(facts[name]["pid"]) or listens(facts[name]["port"])]


def _await_no_servers(facts: dict[str, Any]) -> None:
    eventually_sync(lambda: not _running(facts), within_seconds=15, message=lambda: f"still there: {_running(facts)}")
