"""`signoff doctor`: finds what is wrong, and nothing where all is well."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from signoff.infra.cli.checks_database import check_database
from signoff.infra.postgres.poison import PoisonTable
from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli
from tests.support.databases import fresh_database
from tests.support.parked import AGENT, claimed, submitted

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### `signoff doctor`")[2].partition("\n## ")[0]


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def examine(cli: Cli, **environment: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and the checks by name."""
    result = cli.run(None, "doctor", "--json", **environment)
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["ok"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in document["checks"]}


def wrong(cli: Cli, **environment: str) -> dict[str, Any]:
    """The one check that found something."""
    code, checks = examine(cli, **environment)
    assert code == 1
    found: list[dict[str, Any]] = [check for check in checks.values() if not check["ok"]]
    assert len(found) == 1, found
    assert found[0]["remedy"]
    return found[0]


def change(cli: Cli, sql: str) -> None:
    with psycopg.connect(cli.database_url, autocommit=True) as conn:
        conn.execute(sql)


def test_all_is_well(cli: Cli) -> None:
    code, checks = examine(cli)
    assert code == 0
    assert set(checks) == set(re.findall(r"^\| `([a-z ]+)` \|", SECTION, re.MULTILINE)) - {"the rest"}
    # The servers of tests may forget, and the agent of tests has registered no tools.
    assert {name for name, check in checks.items() if check["state"] != "ok"} == {"durability", "persistence", "tools"}
    assert "PostgreSQL" in checks["database"]["found"]
    table = cli.ok(None, "doctor")
    assert "WRONG" not in table
    assert "noeviction" in table


def test_a_database_that_is_away(cli: Cli) -> None:
    found = wrong(cli, DATABASE_URL="postgresql://signoff:hunter2@127.0.0.1:1/signoff")
    assert found["name"] == "database"
    assert "hunter2" not in str(found)


def test_addresses_that_cannot_be_read(cli: Cli) -> None:
    for environment in ({"DATABASE_URL": "nonsense hunter2"}, {"REDIS_URL": "nonsense hunter2"}):
        found = wrong(cli, **environment)
        assert found["found"] == "the address can't be understood"


def test_a_redis_that_is_away(cli: Cli) -> None:
    assert wrong(cli, REDIS_URL="redis://127.0.0.1:1/0")["name"] == "redis"


def test_a_database_that_is_not_migrated(cli: Cli) -> None:
    with fresh_database(cli.database_url) as empty:
        found = wrong(cli, DATABASE_URL=empty)
        _, checks = examine(cli, DATABASE_URL=empty)
    assert found["name"] == "schema"
    assert "signoff migrate" in found["remedy"]
    assert checks["the rest"]["state"] == "warn", "nobody may think that it was looked at"


def test_an_invalid_index(cli: Cli) -> None:
    change(cli, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'signoff.jobs_due'::regclass")
    found = wrong(cli)
    assert (found["name"], found["found"]) == ("indexes", "signoff.jobs_due")


def test_a_lease_that_nobody_takes_back(cli: Cli) -> None:
    job = cli.world(submitted)
    cli.world(lambda store: claimed(store, job.id))
    change(cli, "UPDATE signoff.jobs SET lease_until = clock_timestamp() - interval '1 minute'")
    found = wrong(cli)
    assert found["name"] == "leases"
    assert "the oldest for 6" in found["found"]


def test_a_due_job_that_nobody_offers(cli: Cli) -> None:
    cli.world(submitted)
    assert examine(cli)[0] == 0, "it was due a moment ago only"
    change(cli, "UPDATE signoff.jobs SET run_at = clock_timestamp() - interval '1 minute'")
    assert wrong(cli)["name"] == "jobs"
    change(cli, "UPDATE signoff.jobs SET offered_at = clock_timestamp()")
    assert examine(cli)[1]["jobs"]["ok"]


def test_due_jobs_that_no_worker_takes(cli: Cli) -> None:
    cli.world(submitted)
    second = cli.world(submitted)
    change(cli, "UPDATE signoff.jobs SET offered_at = clock_timestamp()")
    assert examine(cli)[0] == 0, "they were due a moment ago only"
    change(cli, "UPDATE signoff.jobs SET run_at = clock_timestamp() - interval '1 minute'")
    found = wrong(cli)
    assert found["name"] == "workers"
    assert found["found"].startswith(f"{AGENT}: 2 due, the oldest for 6")
    change(cli, f"UPDATE signoff.jobs SET agent = 'other' WHERE id <> '{second.id}'")
    assert [part.split(":")[0] for part in wrong(cli)["found"].split("; ")] == sorted([AGENT, "other"])


def test_a_worker_that_is_busy_is_not_missing(cli: Cli) -> None:
    cli.world(submitted)
    second = cli.world(submitted)
    cli.world(lambda store: claimed(store, second.id))
    change(
        cli,
        "UPDATE signoff.jobs SET run_at = clock_timestamp() - interval '1 minute', offered_at = clock_timestamp()"
        " WHERE status = 'queued'",
    )
    assert examine(cli)[0] == 0
    change(
        cli, "UPDATE signoff.jobs SET lease_until = clock_timestamp() - interval '1 second' WHERE status = 'running'"
    )
    assert wrong(cli)["name"] == "workers"


def test_messages_that_were_set_aside(cli: Cli) -> None:
    async def set_aside(store: PostgresStore) -> None:
        async with store.begin() as tx:
            poison = PoisonTable(tx.conn)
            await poison.set_aside("signoff:jobs", "1-0", b"{", "not JSON")
            await poison.set_aside("signoff:jobs", "2-0", b"[", "no\nobject" + "!" * 1000)

    cli.world(set_aside)
    found = wrong(cli)
    assert found["name"] == "poison"
    assert found["found"].startswith("2 set aside; the newest of signoff:jobs, 20")
    assert "Z: no object!!!" in found["found"]
    assert len(found["found"]) < 300
    assert "`signoff dead-letters show message:2`" in found["remedy"]
    change(cli, "UPDATE signoff.poison_messages SET settlement = 'discarded', settled_by = 'olga', settled_at = now()")
    assert examine(cli)[0] == 0


def test_an_event_that_nobody_publishes(cli: Cli) -> None:
    cli.world(submitted)
    change(cli, "UPDATE signoff.events SET at = clock_timestamp() - interval '1 minute'")
    assert wrong(cli)["name"] == "events"
    change(cli, "UPDATE signoff.events SET published_at = clock_timestamp()")
    assert examine(cli)[0] == 0


def test_a_redis_that_evicts(cli: Cli) -> None:
    with redis.Redis.from_url(cli.redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            assert wrong(cli)["name"] == "eviction"
        finally:
            client.config_set("maxmemory-policy", "noeviction")


def test_clocks_apart(cli: Cli) -> None:
    change(
        cli,
        "CREATE SCHEMA fake; CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
        " $$ SELECT pg_catalog.clock_timestamp() - interval '5 seconds' $$",
    )
    skewed = f"{cli.database_url}?options=-csearch_path%3Dfake,pg_catalog"
    checks = {check.name: check for check in asyncio.run(check_database(skewed))}
    assert not checks["clock"].ok
    assert "5.0" in checks["clock"].found or "4.9" in checks["clock"].found
    assert "behind" in checks["clock"].found
