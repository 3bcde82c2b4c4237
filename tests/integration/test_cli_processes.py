"""`migrate`, `api`, `worker` and `dispatcher` as processes: they start, say what is wrong, and stop when told to."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from signoff.infra.cli.up.readiness import api_is_ready
from signoff.infra.embedded import EmbeddedPostgres
from tests.support.databases import fresh_database
from tests.support.eventually import eventually_sync
from tests.support.processes import REPOSITORY, arguments_of
from tests.support.up import SIGNOFF, clean_environment, started

AGENTS = "examples.support_desk.agent:agent"
DESK = {
    "support_desk_payments_url": "http://127.0.0.1:1",
    "support_desk_smtp_host": "127.0.0.1",
    "support_desk_smtp_port": "1",
}


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SIGNOFF, *arguments],
        cwd=REPOSITORY,
        env=clean_environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def test_migrate_makes_an_empty_database_ready_and_may_run_again(postgres_server: EmbeddedPostgres) -> None:
    with fresh_database(postgres_server.url) as empty:
        for _ in range(2):
            done = run("migrate", DATABASE_URL=empty)
            assert (done.returncode, done.stderr) == (0, "")
            assert "at schema 0013" in done.stdout


def test_a_database_user_without_rights_is_one_line(postgres_server: EmbeddedPostgres) -> None:
    with fresh_database(postgres_server.url) as empty, psycopg.connect(empty, autocommit=True) as conn:
        name = conn.info.dbname
        conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hunter2'")
        try:
            parts = urlsplit(empty)
            address = parts._replace(netloc=f"{name}:hunter2@{parts.hostname}:{parts.port}").geturl()
            done = run("migrate", DATABASE_URL=address)
        finally:
            conn.execute(f"DROP ROLE {name}")
    assert done.returncode == 1
    assert done.stderr.startswith("signoff: the database's user may not do this: permission denied")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["migrate", "api"])
def test_a_database_that_is_away_is_one_line(command: str) -> None:
    done = run(command, DATABASE_URL="postgresql://s:hunter2@127.0.0.1:1/s", REDIS_URL="redis://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("signoff: the database can't be reached")
    assert "[store_unavailable]" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_api_answers_until_it_is_told_to_stop(database_url: str, redis_url: str, tmp_path: Path) -> None:
    port = free_port()
    with started(tmp_path, "api", "--port", str(port), DATABASE_URL=database_url, REDIS_URL=redis_url) as api:
        eventually_sync(lambda: api_is_ready("127.0.0.1", port), within_seconds=30, message=lambda: api.said)
        assert api.end(signal.SIGTERM) == 0
        assert "Traceback" not in api.said


def test_api_says_that_the_port_is_taken(database_url: str, redis_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("api", "--port", str(port), DATABASE_URL=database_url, REDIS_URL=redis_url)
    assert done.returncode == 1
    assert f"can't listen on 127.0.0.1:{port}" in done.stderr
    assert "[address_unavailable]" in done.stderr


def test_worker_registers_its_agents_and_gets_the_signals_itself(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    settings = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "AGENTS": AGENTS}
    with started(tmp_path, "worker", **settings, **DESK) as worker, psycopg.connect(database_url) as conn:
        conn.autocommit = True
        eventually_sync(
            lambda: conn.execute("SELECT name FROM signoff.agents").fetchone() == ("support-desk",),
            within_seconds=30,
            message=lambda: worker.said,
        )
        assert "signoff.workers\0worker" in arguments_of(worker.pid)
        worker.await_words("ready")
        assert worker.end(signal.SIGTERM) == 0


def test_worker_says_which_agent_cannot_be_loaded(database_url: str, redis_url: str) -> None:
    for agents in ("", "examples.nothing:agent"):
        done = run("worker", DATABASE_URL=database_url, REDIS_URL=redis_url, AGENTS=agents)
        assert done.returncode == 1
        assert "SIGNOFF_AGENTS" in done.stderr
        assert "Traceback" not in done.stderr


def test_dispatcher_runs_until_it_is_told_to_stop(database_url: str, redis_url: str, tmp_path: Path) -> None:
    with (
        started(tmp_path, "dispatcher", DATABASE_URL=database_url, REDIS_URL=redis_url) as dispatcher,
        psycopg.connect(database_url, autocommit=True) as conn,
    ):
        conn.execute(
            "INSERT INTO signoff.events (id, sequence, type, subject, actor, data)"
            " VALUES (gen_random_uuid(), 0, 'signoff.job.accepted.v1', 'jobs/x', 'test', '{}')"
        )
        eventually_sync(
            lambda: conn.execute("SELECT 1 FROM signoff.events WHERE published_at IS NULL").fetchone() is None,
            within_seconds=30,
            message=lambda: dispatcher.said,
        )
        assert dispatcher.end(signal.SIGTERM) == 0
