"""The embedded Valkey: what it promises about data, address and access."""

from __future__ import annotations

import os
import pwd
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from signoff.infra.embedded import EmbeddedValkey
from tests.support.eventually import eventually_sync
from tests.support.processes import arguments_of, listening_addresses, parent_of, user_of


@pytest.fixture(scope="module")
def server(state_folder: Path) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(state_folder) as server:
        yield server


@pytest.fixture
def throwaway() -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey() as server:
        yield server


def _set(server: EmbeddedValkey, key: str) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.set(key, "value")


def _has(server: EmbeddedValkey, key: str) -> bool:
    with redis.Redis.from_url(server.url) as client:
        return bool(client.exists(key))


def _setting(server: EmbeddedValkey, name: str) -> str:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        return str(client.config_get(name)[name])


@pytest.mark.parametrize(
    ("name", "value"), [("appendonly", "yes"), ("appendfsync", "everysec"), ("maxmemory-policy", "noeviction")]
)
def test_settings(server: EmbeddedValkey, name: str, value: str) -> None:
    assert _setting(server, name) == value


@pytest.mark.parametrize("password", ["wrong", None])
def test_nobody_enters_without_the_password(server: EmbeddedValkey, password: str | None) -> None:
    once = Retry(NoBackoff(), 0)
    with redis.Redis(port=server.port, password=password, retry=once) as client:
        with pytest.raises(redis.AuthenticationError):
            client.ping()


def test_it_listens_on_loopback_alone(server: EmbeddedValkey) -> None:
    assert listening_addresses(server.port) == ["127.0.0.1"]


def test_the_password_is_kept_from_other_users(server: EmbeddedValkey) -> None:
    password = urlsplit(server.url).password
    assert password is not None
    file = server.folder / "valkey.password"
    assert file.read_text() == password
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert server.pid is not None
    for pid in (server.pid, parent_of(server.pid)):
        assert password not in arguments_of(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")
def test_root_runs_it_as_nobody(server: EmbeddedValkey) -> None:
    assert server.pid is not None
    assert user_of(server.pid) == pwd.getpwnam("nobody").pw_uid


def test_restart_keeps_address_and_data(server: EmbeddedValkey) -> None:
    before = server.url, server.pid
    _set(server, "kept")

    server.restart(keep_data=True)

    assert server.url == before[0]
    assert server.pid != before[1]
    assert _has(server, "kept")


def test_a_killed_server_keeps_what_is_a_second_old(server: EmbeddedValkey) -> None:
    _set(server, "old")
    with redis.Redis.from_url(server.url) as client:
        assert client.waitaof(1, 0, 5000)[0] == 1
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    eventually_sync(lambda: not server.running, message="the owner did not notice")
    server.stop()

    server.start()

    assert _has(server, "old")


def test_restart_can_lose_all_data(server: EmbeddedValkey) -> None:
    _set(server, "lost")
    address = server.url

    server.restart(keep_data=False)

    assert server.url == address
    assert not _has(server, "lost")


@pytest.mark.parametrize("keep", [True, False])
def test_throwaway_data_outlive_a_restart_only_if_asked(throwaway: EmbeddedValkey, keep: bool) -> None:
    _set(throwaway, "key")

    throwaway.restart(keep_data=keep)

    assert _has(throwaway, "key") is keep


def test_throwaway_data_are_never_written_and_gone_after_stop() -> None:
    with EmbeddedValkey() as server:
        _set(server, "key")
        assert _setting(server, "appendonly") == "no"
        assert list((server.folder / "valkey").iterdir()) == []
    assert not server.folder.exists()
