"""`signoff up`: one command from nothing to a working Signoff, and back to nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from tests.support.desk import REFUND
from tests.support.eventually import eventually_sync
from tests.support.processes import REPOSITORY, lives
from tests.support.up import SIGNOFF, Running, await_gone, clean_environment, started

AGENTS = "examples.support_desk.agent:agent"


@pytest.fixture
def desk_environment(payments: Payments, mailbox: Mailbox) -> dict[str, str]:
    return {
        "AGENTS": AGENTS,
        "DRAIN_SECONDS": "2",
        "support_desk_payments_url": payments.url,
        "support_desk_smtp_host": mailbox.host,
        "support_desk_smtp_port": str(mailbox.port),
    }


@pytest.fixture
def state(open_folder: Path) -> Path:
    return open_folder / "state"


@pytest.fixture
def configured_up(
    database_url: str, redis_url: str, state: Path, tmp_path: Path, desk_environment: dict[str, str]
) -> Iterator[Running]:
    """With the servers of the tests."""
    addresses = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    arguments = ("up", "--port", "0", "--state-dir", str(state))
    with started(tmp_path, *arguments, **addresses, **desk_environment) as up:
        up.await_words("ready; Ctrl-C stops")
        yield up


def signoff(state: Path, *arguments: str, **settings: str) -> str:
    """What another terminal sees that knows nothing but the state folder."""
    done = subprocess.run(
        [*SIGNOFF, *arguments],
        cwd=REPOSITORY,
        env=clean_environment(STATE_DIR=str(state), **settings),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_json(state: Path, *arguments: str, **settings: str) -> Any:
    return json.loads(signoff(state, *arguments, "--json", **settings))


def test_from_nothing_to_a_refund_and_back(
    state: Path, tmp_path: Path, payments: Payments, desk_environment: dict[str, str]
) -> None:
    with started(tmp_path, "up", "--port", "0", "--state-dir", str(state), **desk_environment) as up:
        up.await_words("ready; Ctrl-C stops")
        assert "embedded, 127.0.0.1:" in up.said
        assert "support-desk" in up.said
        refund_one(state, payments)
        signoff(state, "doctor")
        everything = up.descendants()
        for what in ("infra.cli api", "workers dispatcher", "workers worker", "postgres -D", "valkey"):
            assert any(what in words for words in everything.values()), (what, everything)
        os.killpg(up.pid, signal.SIGINT)  # what a terminal does
        assert up.process.wait(40) == 0
        assert not [words for pid, words in everything.items() if lives(pid)], "it waits for all that it started"
        assert up.said.rstrip().endswith("stopping: worker, dispatcher, api\nstopped")
    assert "database system is shut down" in (state / "postgres.log").read_text()
    assert "Warm shutdown" in (state / "worker.log").read_text()
    assert not (state / "addresses.json").exists()


def refund_one(state: Path, payments: Payments) -> None:
    shop = signoff(state, "tokens", "create", "--name", "shop", "--right", "submit").strip()
    right = ("--right", "review", "--group", "support-leads")
    rita = signoff(state, "tokens", "create", "--name", "rita", *right).strip()
    job = as_json(state, "jobs", "submit", "support-desk", REFUND, "--wait", "30", TOKEN=shop)
    (review,) = job["pending_reviews"]
    signoff(state, "reviews", "decide", review, "--approve", TOKEN=rita)
    done = lambda: as_json(state, "jobs", "show", job["job_id"], TOKEN=shop)["status"] == "succeeded"  # noqa: E731
    eventually_sync(done, within_seconds=30)
    assert len(payments.applied()) == 1


def test_the_second_start_finds_what_the_first_one_left(state: Path, tmp_path: Path) -> None:
    tokens: list[Any] = []
    for _ in range(2):
        with started(tmp_path, "up", "--port", "0", "--state-dir", str(state)) as up:
            up.await_words("ready; Ctrl-C stops")
            assert "none: SIGNOFF_AGENTS names no agent" in up.said
            if not tokens:
                signoff(state, "tokens", "create", "--name", "shop", "--right", "submit")
            tokens.append(as_json(state, "tokens", "list"))
            assert up.end(signal.SIGTERM) == 0
    assert tokens[0] == tokens[1]
    assert (state / "api.log.1").exists()


def test_nothing_is_left_when_it_is_killed(state: Path, tmp_path: Path, desk_environment: dict[str, str]) -> None:
    with started(tmp_path, "up", "--port", "0", "--state-dir", str(state), **desk_environment) as up:
        up.await_words("ready; Ctrl-C stops")
        everything = up.descendants()
        assert len(everything) > 10
        up.end(signal.SIGKILL)
        await_gone(everything)


def test_configured_servers_are_used_and_left_alone(configured_up: Running, state: Path, database_url: str) -> None:
    assert configured_up.said.count("configured, 127.0.0.1:") == 2
    assert not [words for words in configured_up.descendants().values() if "postgres -D" in words or "valkey" in words]
    written = state / "addresses.json"
    assert json.loads(written.read_text())["database_url"] == database_url
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert stat.S_IMODE((state / "worker.log").stat().st_mode) == 0o600
    signoff(state, "doctor")
    assert configured_up.end() == 0


@pytest.mark.parametrize("name", ["workers worker", "infra.cli api", "workers dispatcher"])
def test_when_one_ends_all_end_and_its_log_is_shown(configured_up: Running, name: str) -> None:
    everything = configured_up.descendants()
    (pid,) = [pid for pid, words in everything.items() if words.rstrip().endswith(name)]
    os.kill(pid, signal.SIGKILL)
    assert configured_up.process.wait(40) == 1
    assert f"signoff: the {name.split()[1]} has ended by itself. The end of its log:" in configured_up.said
    assert configured_up.said.rstrip().endswith("[process_failed]")
    assert "Traceback" not in configured_up.said
    await_gone(everything, within_seconds=1)


def test_a_second_ctrl_c_stops_at_once(configured_up: Running) -> None:
    everything = configured_up.descendants()
    (worker,) = [pid for pid, words in everything.items() if words.rstrip().endswith("workers worker")]
    os.kill(worker, signal.SIGSTOP)  # it will not drain
    configured_up.process.send_signal(signal.SIGINT)
    configured_up.await_words("stopping: ")
    assert configured_up.end(signal.SIGINT, within_seconds=8) == 1
    assert "stopped at once" in configured_up.said
    await_gone(everything, within_seconds=1)


def test_one_state_folder_is_for_one_at_a_time(configured_up: Running, state: Path, tmp_path: Path) -> None:
    with started(tmp_path, "up", "--state-dir", str(state), "--port", "0", "--verbose") as second:
        assert second.process.wait(30) == 1
    assert f"{state} is in use by process {configured_up.pid}" in second.said
    assert configured_up.process.poll() is None


def test_an_agent_that_cannot_be_loaded_ends_it_with_the_reason(
    database_url: str, redis_url: str, state: Path, tmp_path: Path
) -> None:
    settings = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "AGENTS": "examples.nothing:agent"}
    with started(tmp_path, "up", "--port", "0", "--state-dir", str(state), **settings) as up:
        assert up.process.wait(60) == 1
        assert "the worker has ended by itself" in up.said
        assert "SIGNOFF_AGENTS: 'examples.nothing:agent' can't be loaded" in up.said
        assert "ready" not in up.said


def test_a_port_that_is_taken_is_said_before_anything_is_started(state: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, "up", "--port", str(port), "--state-dir", str(state)) as up:
            assert up.process.wait(30) == 1
    assert f"can't listen on 127.0.0.1:{port}" in up.said
    assert not state.exists()


def test_verbose_shows_the_logs_and_the_token_of_who_starts_it_goes_no_further(
    database_url: str, redis_url: str, state: Path, tmp_path: Path
) -> None:
    settings = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "TOKEN": "sgn_mine"}
    with started(tmp_path, "up", "--verbose", "--port", "0", "--state-dir", str(state), **settings) as up:
        up.await_words("ready; Ctrl-C stops")
        up.await_words("api        {")
        for pid, words in up.descendants().items():
            if "guard.py" not in words:
                assert b"sgn_mine" not in Path(f"/proc/{pid}/environ").read_bytes(), words
        assert up.end() == 0
