"""R21: the last release and this one work on one database, while it is migrated and under load."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import httpx
import psycopg
import pytest

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.infra.cli.up.readiness import api_is_ready
from signoff.infra.postgres.schema import REVISION
from signoff.infra.tokens import new_token
from tests.integration.test_cli_processes import free_port
from tests.support.databases import fresh_database
from tests.support.eventually import eventually_sync
from tests.support.old_release import SCHEMA, extract, run, running
from tests.support.processes import REPOSITORY
from tests.support.up import Running

JOBS = 8
REFUND = "Refund 42.50 on order A-1001 because the parcel came a week late."
SCHEMA_VERSION = "SELECT version_num FROM signoff.schema_version"
PEOPLE = {"shop": ("service", ["submit"], []), "rita": ("person", ["review"], ["support-leads"])}


@dataclass
class Rollout:
    """A database that both releases work on, and who uses it meanwhile."""

    old: Path
    folder: Path
    settings: dict[str, str]
    tokens: dict[str, str]
    database: psycopg.Connection[Any]
    payments: Payments
    ports: dict[Path, int] = field(default_factory=dict)

    def start(self, stack: ExitStack, tree: Path, *names: str) -> dict[str, Running]:
        return {name: self._start(stack, tree, name) for name in names}

    def _start(self, stack: ExitStack, tree: Path, name: str) -> Running:
        log = self.log(tree, name)
        if name != "api":
            process = stack.enter_context(running(tree, log, name, **self.settings))
            if name == "worker":
                process.await_words("ready")
            return process
        self.ports[tree] = port = free_port()
        api = stack.enter_context(running(tree, log, "api", "--port", str(port), **self.settings))
        eventually_sync(lambda: api_is_ready("127.0.0.1", port), within_seconds=40, message=log.read_text)
        return api

    def migrate(self, tree: Path) -> None:
        log = self.log(tree, "migrate")
        assert run(tree, log, "migrate", **self.settings) == 0, log.read_text()

    def log(self, tree: Path, name: str) -> Path:
        return self.folder / f"{'new' if tree == REPOSITORY else 'old'}-{name}.log"

    def submit(self, tree: Path, count: int = JOBS) -> None:
        for _ in range(count):
            body = {"agent": "support-desk", "input": REFUND}
            self._ask("shop", tree, "POST", "/v1/jobs", body)

    def approve(self, tree: Path, count: int) -> None:
        """So many of the pending reviews, through that release's door."""
        pending = self.until(lambda: self._pending(tree, count), "too few reviews are pending")
        for review in pending[:count]:
            body = {"decisions": [{"type": "approve"}]}
            self._ask("rita", tree, "POST", f"/v1/reviews/{review['review_id']}/decisions", body)

    def statuses(self) -> Counter[str]:
        return Counter(row[0] for row in self.database.execute("SELECT status FROM signoff.jobs"))

    def until(self, fn: Callable[[], Any], problem: str, within_seconds: float = 40.0) -> Any:
        return eventually_sync(fn, within_seconds=within_seconds, message=lambda: f"{problem}: {self.story()}")

    def story(self) -> str:
        logs = [
            f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join([str(self.statuses()), *logs])

    def _pending(self, tree: Path, count: int) -> list[Any] | None:
        found = self._ask("rita", tree, "GET", "/v1/reviews?status=pending&limit=100")["reviews"]
        return found if len(found) >= count else None

    def _ask(self, who: str, tree: Path, method: str, path: str, body: Any = None) -> Any:
        url = f"http://127.0.0.1:{self.ports[tree]}{path}"
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        answer = httpx.request(method, url, json=body, headers=headers, timeout=20)
        assert answer.is_success, (answer.text, self.story())
        return answer.json()


@pytest.fixture
def payments(tmp_path: Path) -> Iterator[Payments]:
    with Payments(tmp_path / "payments.jsonl") as service:
        yield service


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    with Mailbox(tmp_path / "mail.jsonl") as server:
        yield server


@pytest.fixture
def rollout(
    postgres_server: Any, redis_url: str, tmp_path: Path, payments: Payments, mailbox: Mailbox
) -> Iterator[Rollout]:
    """A database at the last release's schema."""
    old = tmp_path / "old"
    old.mkdir()
    if problem := extract(old):
        pytest.skip(f"NOT TRIED: {problem}")
    with fresh_database(postgres_server.url) as url:
        settings = {
            "DATABASE_URL": url,
            "REDIS_URL": redis_url,
            "AGENTS": "examples.support_desk.agent:agent",
            "LEASE_SECONDS": "5",
            "support_desk_payments_url": payments.url,
            "support_desk_smtp_host": mailbox.host,
            "support_desk_smtp_port": str(mailbox.port),
        }
        assert run(old, tmp_path / "old-migrate.log", "migrate", **settings) == 0
        with psycopg.connect(url, autocommit=True) as conn:
            yield Rollout(old, tmp_path, settings, {n: person(conn, n) for n in PEOPLE}, conn, payments)


def person(conn: psycopg.Connection[Any], name: str) -> str:
    """Their token."""
    (kind, rights, groups), (token, hashed) = PEOPLE[name], new_token()
    conn.execute(
        "INSERT INTO signoff.principals (name, kind, rights, groups) VALUES (%s, %s, %s, %s)",
        (name, kind, rights, groups),
    )
    conn.execute("INSERT INTO signoff.tokens (id, principal, hash) VALUES (%s, %s, %s)", (uuid4(), name, hashed))
    return token


@pytest.mark.timeout(300)
def test_old_and_new_processes_share_a_database_that_is_migrated_under_them(rollout: Rollout) -> None:
    everything = ("api", "worker", "dispatcher")
    with ExitStack() as stack:
        old = rollout.start(stack, rollout.old, *everything)
        rollout.submit(rollout.old)
        rollout.approve(rollout.old, JOBS // 2)
        rollout.until(
            lambda: one(rollout, "SELECT count(published_at) FROM signoff.events"), "no dispatcher is at work"
        )
        assert one(rollout, SCHEMA_VERSION) == SCHEMA

        rollout.migrate(REPOSITORY)
        assert one(rollout, SCHEMA_VERSION) == REVISION
        rollout.submit(rollout.old)
        rollout.approve(rollout.old, JOBS // 2)
        rollout.until(lambda: rollout.statuses()["succeeded"] >= JOBS, "old workers on the new schema")

        rollout.start(stack, REPOSITORY, *everything)
        rollout.submit(REPOSITORY)
        rollout.approve(rollout.old, JOBS)
        for process in ("worker", "dispatcher", "api"):
            assert old[process].end(signal.SIGTERM) == 0, (process, rollout.log(rollout.old, process).read_text())
        rollout.submit(REPOSITORY)
        rollout.approve(REPOSITORY, 2 * JOBS)
        rollout.until(lambda: rollout.statuses() == {"succeeded": 4 * JOBS}, "not all of them ended well")

    paid = Counter(entry["key"] for entry in rollout.payments.applied())
    assert (len(paid), set(paid.values())) == (4 * JOBS, {1})
    log = rollout.log(REPOSITORY, "verify")
    assert run(REPOSITORY, log, "verify", "--settled-for", "3600", **rollout.settings) == 0, log.read_text()


def test_an_old_process_that_is_started_after_the_migration_refuses_with_a_reason(rollout: Rollout) -> None:
    rollout.migrate(REPOSITORY)
    log = rollout.log(rollout.old, "worker")
    assert run(rollout.old, log, "worker", **rollout.settings) == 1
    assert f"at schema {REVISION}" in log.read_text()
    assert "older than the database" in log.read_text()


def one(rollout: Rollout, query: LiteralString) -> Any:
    row = rollout.database.execute(query).fetchone()
    return row and row[0]
