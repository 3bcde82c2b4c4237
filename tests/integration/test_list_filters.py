"""Lists of jobs, reviews, effects and sendings: the same filters by command line and HTTP, and quick with many rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.effects import EffectStatus, Outcome
from signoff.domain.jobs import JobStatus
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_effects import EffectFilter, list_effects
from signoff.infra.postgres.views_jobs import JobFilter, list_jobs
from signoff.infra.postgres.views_subscriptions import SendingFilter, list_sendings
from tests.integration.test_views import COPIES, plan
from tests.support.api import Api, open_api, open_store
from tests.support.cli import Cli
from tests.support.parked import IN_DOUBT, OPERATOR, parked, refund, submitted, tried
from tests.support.reviewing import change, decide


async def world(store: PostgresStore) -> dict[str, str]:
    """A doubted refund of team eu, a parked mail of team us, and a queued job; by what is looked for."""
    doubted = await parked(store, labels={"team": "eu", "tier": "1"})
    operation = (await decide(store, doubted.review_id)).decisions[0].operation_id
    await tried(store, doubted.job_id, operation, *IN_DOUBT, outcome=Outcome.unknown)
    mail = refund(tool="send_email", reviewers=["legal"])
    waiting = await parked(store, mail, labels={"team": "us"})
    queued = await submitted(store)
    await change(store, "UPDATE signoff.jobs SET created_at = now() - interval '3 hours' WHERE id = %s", queued.id)
    await change(
        store, "UPDATE signoff.reviews SET created_at = now() - interval '3 hours' WHERE id = %s", waiting.review_id
    )
    return {
        "doubted": str(doubted.job_id),
        "waiting": str(waiting.job_id),
        "queued": str(queued.id),
        "decided review": str(doubted.review_id),
        "waiting review": str(waiting.review_id),
        "effect": operation,
    }


# What is asked of which list, and the names of what is found, newest first.
CASES: list[tuple[str, list[tuple[str, Any]], list[str]]] = [
    ("jobs", [("status", "queued"), ("status", "awaiting_review")], ["waiting", "queued"]),
    ("jobs", [("error", "effect_held")], ["doubted"]),
    ("jobs", [("tool", "send_email")], ["waiting"]),
    ("jobs", [("tool", "refund")], ["doubted"]),
    ("jobs", [("reviewer", "legal")], ["waiting"]),
    ("jobs", [("label", "team=eu")], ["doubted"]),
    ("jobs", [("label", "team=eu"), ("label", "tier=2")], []),
    ("jobs", [("older_than", "2h")], ["queued"]),
    ("jobs", [("newer_than", "2h")], ["waiting", "doubted"]),
    ("reviews", [("status", "pending"), ("status", "decided")], ["decided review", "waiting review"]),
    ("reviews", [("label", "team=us")], ["waiting review"]),
    ("reviews", [("older_than", "2h")], ["waiting review"]),
    ("effects", [("status", "dead"), ("status", "in_doubt")], ["effect"]),
    ("effects", [("status", "planned")], []),
    ("effects", [("agent", "desk"), ("tool", "refund")], ["effect"]),
    ("effects", [("reviewer", "@rita")], ["effect"]),
    ("effects", [("reviewer", "ravi")], []),
    ("effects", [("error", "unknown")], ["effect"]),
    ("effects", [("label", "team=us")], []),
    ("effects", [("newer_than", "1h")], ["effect"]),
]
KEYS = {"jobs": "job_id", "reviews": "review_id", "effects": "operation_id"}


def test_by_command_line(database_url: str, redis_url: str) -> None:
    cli = Cli(database_url, redis_url)
    ids = cli.world(world)
    for noun, asked, found in CASES:
        options = [word for name, value in asked for word in (f"--{name.replace('_', '-')}", value)]
        listed = [row[KEYS[noun]] for row in cli.json("olga", noun, "list", *options)[noun]]
        assert listed == [ids[name] for name in found], (noun, asked)
    for options in (["--older-than", "soon"], ["--label", "team"]):
        assert options[0] in cli.usage_error("olga", "jobs", "list", *options)


@pytest.mark.anyio
async def test_over_http(database_url: str) -> None:
    async with open_api(database_url) as api:
        ids = await world(api.store)
        for noun, asked, found in CASES:
            assert await listed(api, noun, asked) == [ids[name] for name in found], (noun, asked)
        for path in (
            "jobs?older_than=soon",
            "jobs?label=team",
            "jobs?label=a%00=b",
            "jobs?tool=%00",
            "effects?status=x",
        ):
            assert (await api.get("olga", f"/v1/{path}")).status_code == 422, path


async def listed(api: Api, noun: str, asked: list[tuple[str, Any]]) -> list[Any]:
    async with api.client("olga") as client:
        answer = await client.get(f"/v1/{noun}", params=asked)
    return [row[KEYS[noun]] for row in answer.json()[noun]]


@pytest.fixture
async def conn(database_url: str) -> AsyncIterator[AsyncConnection[DictRow]]:
    async with open_store(database_url) as services:
        await parked(services.store)
        async with services.store.connection() as conn:
            for statement in COPIES.format(many=1000).split(";\n"):
                await conn.execute(statement)
            await conn.execute(SENDINGS)
            await conn.execute("ANALYZE signoff.sendings")
            yield conn


SENDINGS = """WITH billing AS (
    INSERT INTO signoff.subscriptions (id, name, kind, target, event_types, created_by, cursor_tx, cursor_position)
    VALUES (gen_random_uuid(), 'billing', 'webhook', 'https://billing.test', '{signoff.*}', 'olga', '0', 0)
    RETURNING id)
INSERT INTO signoff.sendings
    (id, subscription_id, event_id, event_cursor, event_type, sequence, body, status, created_at)
SELECT gen_random_uuid(), id, gen_random_uuid(), '7-7', 'signoff.job.held.v1', 0, '{}', 'sent',
    now() - n * interval '1 s'
FROM billing, generate_series(1, 3000) AS n"""


@pytest.mark.anyio
async def test_newest_first_follows_an_index(conn: AsyncConnection[DictRow]) -> None:
    jobs = await plan(conn, lambda: list_jobs(conn, JobFilter([JobStatus.queued], error="x"), OPERATOR))
    assert "Seq Scan on jobs" not in jobs
    sendings = await plan(conn, lambda: list_sendings(conn, None, SendingFilter(), OPERATOR))
    assert "sendings_of_all_by_time" in sendings
    assert "Sort" not in sendings
    effects = await plan(conn, lambda: list_effects(conn, EffectFilter([EffectStatus.in_doubt]), OPERATOR))
    assert "effects_open" in effects
