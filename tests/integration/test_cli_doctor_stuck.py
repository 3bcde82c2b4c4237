"""`signoff doctor`: what waits for something that does not come, and what waits for a person."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import redis

from signoff.domain.effects import EffectStatus, Outcome, Step
from tests.integration.test_cli_doctor import change, examine
from tests.support.cli import Cli
from tests.support.parked import AGENT, IN_DOUBT, claimed, held, parked, submitted, tried

DEAD = (
    Step(EffectStatus.retry_wait, doubt=False, reason="not applied"),
    Step(EffectStatus.dead, doubt=False, reason="out of tries"),
)
LATER = "run_at = clock_timestamp() - interval '1 minute'"


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def state_of(cli: Cli, name: str, **environment: str) -> tuple[str, str]:
    check = examine(cli, **environment)[1][name]
    assert (check["state"] == "ok") == (check["remedy"] is None)
    return check["state"], check["found"]


def approved(cli: Cli) -> tuple[Any, str]:
    """A job whose one call is approved, and the operation."""
    place = cli.world(parked)
    cli.ok("rita", "reviews", "decide", place.review_id, "--approve")
    (planned,) = cli.json("olga", "effects", "list", "--job", place.job_id)["effects"]
    return place.job_id, planned["operation_id"]


def sent(cli: Cli, steps: tuple[Step, ...], outcome: Outcome = Outcome.unknown) -> tuple[Any, str]:
    job_id, operation = approved(cli)
    cli.world(lambda store: tried(store, job_id, operation, *steps, outcome=outcome))
    return job_id, operation


def test_a_job_that_waits_for_a_review_which_is_not_pending(cli: Cli) -> None:
    place = cli.world(parked)
    change(cli, f"UPDATE signoff.jobs SET {LATER}")
    assert state_of(cli, "jobs without a review")[0] == "ok"
    change(cli, "UPDATE signoff.reviews SET status = 'cancelled'")
    state, found = state_of(cli, "jobs without a review")
    assert state == "fail"
    assert found.endswith(str(place.job_id))


def test_a_review_whose_job_has_ended(cli: Cli) -> None:
    place = cli.world(parked)
    change(cli, "UPDATE signoff.reviews SET created_at = created_at - interval '1 minute'")
    change(cli, "UPDATE signoff.jobs SET status = 'cancelled', ended_at = now()")
    assert state_of(cli, "reviews without a job") == (
        "fail",
        f"1 wait for a person though their job has ended, the oldest for 60 s: {place.review_id}",
    )


def test_a_job_that_is_held_for_an_effect_which_is_settled(cli: Cli) -> None:
    job_id, _ = sent(cli, IN_DOUBT)
    change(cli, f"UPDATE signoff.jobs SET {LATER}")
    assert state_of(cli, "jobs held for nothing")[0] == "ok"
    change(cli, "UPDATE signoff.effects SET status = 'succeeded', doubt_since = NULL, ended_at = now()")
    assert state_of(cli, "jobs held for nothing")[1].endswith(str(job_id))


def test_a_thread_that_nobody_starts(cli: Cli) -> None:
    job = cli.world(submitted)
    change(cli, "UPDATE signoff.jobs SET status = 'waiting', created_at = created_at - interval '1 minute'")
    assert state_of(cli, "threads without a start")[1].endswith(str(job.id))


def test_effects_that_nobody_carries_on(cli: Cli) -> None:
    job_id, operation = sent(cli, IN_DOUBT)
    past = "now() - interval '1 minute'"
    change(cli, f"UPDATE signoff.effects SET status = 'dispatched', last_dispatched_at = {past}")
    assert state_of(cli, "effects without a lease")[1].endswith(operation)
    change(cli, f"UPDATE signoff.effects SET status = 'in_doubt', probe_at = {past}")
    assert state_of(cli, "effects to be asked about")[1].endswith(operation)
    change(
        cli,
        f"UPDATE signoff.effects SET status = 'retry_wait', alone = true, retry_at = {past}, awaits_operator = false",
    )
    assert state_of(cli, "effects alone")[1].endswith(operation)
    change(cli, "UPDATE signoff.effects SET offered_at = now()")
    assert state_of(cli, "effects alone")[0] == "ok"
    change(cli, "UPDATE signoff.effects SET alone = false")
    change(cli, f"UPDATE signoff.jobs SET status = 'failed', ended_at = now() WHERE id = '{job_id}'")
    assert state_of(cli, "effects left behind")[1].endswith(operation)


def test_an_effect_that_is_replayed_just_now_is_not_stuck(cli: Cli) -> None:
    _, operation = sent(cli, DEAD, Outcome.not_applied)
    change(cli, "UPDATE signoff.effects SET created_at = created_at - interval '1 day'")
    cli.ok("olga", "effects", "replay", operation, "--reason", "the provider is well again")
    change(cli, "UPDATE signoff.effects SET alone = true")
    assert state_of(cli, "effects alone")[0] == "ok"


def test_deadlines_and_rungs_that_nobody_fires(cli: Cli) -> None:
    cli.world(parked)
    change(cli, "UPDATE signoff.items SET deadline_at = now() - interval '1 minute'")
    assert state_of(cli, "deadlines")[0] == "fail"
    change(cli, "UPDATE signoff.items SET deadline_at = NULL, next_rung_at = now() - interval '1 minute'")
    assert state_of(cli, "reminders")[0] == "fail"


def test_what_waits_for_a_person(cli: Cli) -> None:
    job_id, operation = sent(cli, IN_DOUBT)
    assert state_of(cli, "doubt")[0] == "ok", "it has just come up"
    change(cli, "UPDATE signoff.effects SET doubt_since = now() - interval '1 hour'")
    assert state_of(cli, "doubt") == (
        "warn",
        f"1 effects in doubt for more than 15 minutes, the oldest for 3600 s: {operation}",
    )
    change(
        cli,
        "INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message)"
        f" VALUES (gen_random_uuid(), 'duplicate', '{operation}', '{job_id}', 'twice')",
    )
    assert state_of(cli, "alarms")[0] == "fail"
    other = cli.world(submitted)
    cli.world(lambda store: held(store, other.id))
    change(cli, f"UPDATE signoff.jobs SET error_code = 'tries_exhausted' WHERE id = '{other.id}'")
    assert state_of(cli, "held jobs")[1].endswith(str(other.id))


def test_what_is_held_back(cli: Cli) -> None:
    change(
        cli,
        """INSERT INTO signoff.pauses (id, tool, reason, created_by, created_at)
            VALUES (gen_random_uuid(), 'refund', 'a fire', 'olga', now() - interval '5 hours');
        INSERT INTO signoff.providers (name, opened_at, open_until, last_error)
            VALUES ('bank', now(), now(), 'gone')""",
    )
    assert state_of(cli, "pauses")[1].endswith("tool refund by olga, a fire")
    assert state_of(cli, "circuits")[1].endswith("bank, gone")


def test_workers(cli: Cli) -> None:
    change(
        cli,
        f"""INSERT INTO signoff.workers
            (name, agents, version, seen_at, clock_offset_seconds, drain_requested_at)
        VALUES ('fast', '{{{AGENT}}}', '1', now(), 7.5, NULL), ('old', '{{{AGENT}}}', '0', now(), 0, NULL),
            ('gone', '{{{AGENT}}}', '1', now() - interval '5 min', 90, NULL),
            ('slow', '{{{AGENT}}}', '1', now(), 0, now() - interval '1 hour')""",
    )
    assert state_of(cli, "worker clocks") == ("fail", "fast is +7.5 s off the database")
    assert state_of(cli, "lost workers") == ("warn", "gone, not seen for 300 s")
    assert state_of(cli, "drains") == ("warn", "slow, asked 3600 s ago")
    assert state_of(cli, "versions") == ("warn", "1 of 0, 2 of 1")
    cli.world(submitted)
    change(cli, f"UPDATE signoff.jobs SET offered_at = now(), {LATER}")
    assert "2 workers serve it" in state_of(cli, "workers")[1]


def test_tools_and_policy(cli: Cli) -> None:
    tools = '{"refund": {}, "wire": {"compensation": {"tool": "recall"}}, "lookup_order": {}, "send_email": {}}'
    change(cli, f"UPDATE signoff.agents SET tools = '{tools}'")
    state, found = state_of(cli, "tools")
    assert state == "warn"
    assert found.split("; ") == [
        f"{AGENT}: no rule is for 'wire', so it is denied",
        f"{AGENT}: 'wire' is undone by 'recall', which is no tool",
    ]
    change(cli, "UPDATE signoff.agents SET tools = tools - 'wire' - 'send_email'")
    assert state_of(cli, "tools")[1] == f"{AGENT}: no tool is called 'send_email', as a rule has it"
    change(cli, "UPDATE signoff.agents SET policy = '{\"rules\": [{}]}'")
    assert "can't be read by this version" in state_of(cli, "tools")[1]


def test_a_check_that_cannot_be_made_says_so(cli: Cli) -> None:
    change(cli, "ALTER TABLE signoff.alarms RENAME COLUMN acknowledged_at TO elsewhere")
    state, found = state_of(cli, "alarms")
    assert state == "fail"
    assert found.startswith("could not be looked at: column")
    assert state_of(cli, "doubt")[0] == "ok", "the others are made"


def test_a_broker_that_is_diverted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_of(cli, "broker")[0] == "ok"
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://elsewhere")
    state, found = state_of(cli, "broker")
    assert state == "fail"
    assert found.startswith("CELERY_BROKER_URL is set")
    assert "elsewhere" not in found, "it may hold a password"


def test_redis_that_is_shared_or_full(cli: Cli) -> None:
    with redis.Redis.from_url(cli.redis_url) as client:
        client.sadd("_kombu.binding.signoff.intake", "x")
        assert state_of(cli, "neighbours")[0] == "ok"
        client.sadd("_kombu.binding.celery", "x")
        assert state_of(cli, "neighbours") == ("warn", "celery")
        used = client.info()["used_memory"]
        client.config_set("maxmemory", int(used * 1.1))
        try:
            assert state_of(cli, "memory")[0] == "warn"
        finally:
            client.config_set("maxmemory", 0)


def test_a_job_under_a_lease_is_not_stuck(cli: Cli) -> None:
    """Nothing is found where everything is as it should be, with a job of each state."""
    cli.world(submitted)
    cli.world(lambda store: parked(store))
    running = cli.world(submitted)
    cli.world(lambda store: claimed(store, running.id))
    sent(cli, IN_DOUBT)
    with psycopg.connect(cli.database_url, autocommit=True) as conn:
        conn.execute("UPDATE signoff.jobs SET run_at = run_at - interval '1 hour' WHERE status <> 'queued'")
    _, checks = examine(cli)
    assert {name for name, check in checks.items() if check["state"] == "fail"} == set()
