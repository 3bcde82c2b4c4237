"""How everything stands, by command line and HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from signoff.domain.effects import EffectStatus, Outcome, Step
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_status import show_status
from tests.support.api import open_api
from tests.support.cli import Cli
from tests.support.parked import IN_DOUBT, OPERATOR, claimed, ended, parked, submitted, tried
from tests.support.reviewing import change, decide

REFUSED_AND_HELD = (Step(EffectStatus.failed, doubt=False, reason="refused", holds=True),)


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


async def status(store: PostgresStore) -> dict[str, Any]:
    async with store.connection() as conn:
        return await show_status(conn, OPERATOR)


async def sent(store: PostgresStore, *steps: Step) -> tuple[UUID, str]:
    place = await parked(store)
    operation = (await decide(store, place.review_id)).decisions[0].operation_id
    await tried(store, place.job_id, operation, *steps, outcome=Outcome.unknown)
    return place.job_id, operation


async def busy(store: PostgresStore) -> dict[str, str]:
    """One of each thing that needs a person."""
    waiting = await parked(store)
    _, doubted = await sent(store, *IN_DOUBT)
    _, refused = await sent(store, *REFUSED_AND_HELD)
    job_id, alarmed = await sent(store, *IN_DOUBT)
    await change(
        store,
        "INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message)"
        " VALUES (gen_random_uuid(), 'duplicate', %s, %s, 'sent twice')",
        alarmed,
        job_id,
    )
    await change(
        store,
        "INSERT INTO signoff.pauses (id, tool, reason, created_by) VALUES (gen_random_uuid(), 'pay', 'x', 'olga')",
    )
    await change(
        store,
        "INSERT INTO signoff.providers (name, failures, opened_at, open_until, last_error)"
        " VALUES ('bank', 5, now(), now() + interval '1 minute', 'answered 503')",
    )
    await change(store, "INSERT INTO signoff.workers (name, agents, version) VALUES ('w-1', '{desk}', '1')")
    await change(
        store, "INSERT INTO signoff.poison_messages (stream, entry_id, body, error) VALUES ('s', '1', '', 'not JSON')"
    )
    await claimed(store, (await submitted(store)).id)
    await ended(store, (await submitted(store)).id)
    return {"review": str(waiting.review_id), "doubted": doubted, "refused": refused, "alarmed": alarmed}


def test_each_thing_that_needs_a_person_comes_with_its_command(cli: Cli) -> None:
    ids = cli.world(busy)
    shown = cli.json("olga", "status")
    assert {need["what"].split()[0]: (need["count"], need["command"]) for need in shown["needs"]} == {
        "alarms:": (1, "signoff alarms list"),
        "effects": (2, f"signoff effects show {ids['doubted']}"),
        "refused": (1, f"signoff effects show {ids['refused']}"),
        "messages": (1, "signoff dead-letters list --kind message"),
        "reviews": (1, f"signoff reviews show {ids['review']}"),
    }
    counts = {(row["agent"], row["status"]): row["count"] for row in shown["jobs"]}
    assert counts == {("desk", "awaiting_review"): 1, ("desk", "awaiting_operator"): 3, ("desk", "running"): 1}
    assert [(row["status"], row["count"]) for row in shown["last_day"]] == [("succeeded", 1)]
    assert shown["unsent_events"]["count"] > 0


def test_it_is_one_screen(cli: Cli) -> None:
    cli.world(busy)
    shown = cli.ok("olga", "status")
    assert len(shown.splitlines()) <= 24
    for part in ("effects in doubt", "pay, since", "bank, until", "w-1 (desk)", "events, the oldest for"):
        assert part in shown


def test_a_quiet_system_says_so(cli: Cli) -> None:
    shown = cli.ok("olga", "status")
    assert shown.startswith("Nothing needs a person.")
    assert "nothing waits" in shown


@pytest.mark.anyio
async def test_it_is_for_operators(database_url: str) -> None:
    async with open_api(database_url) as api:
        for name in ("shop", "rita"):
            refused = await api.get(name, "/v1/status")
            assert (refused.status_code, refused.json()["code"]) == (403, "right_missing")
        assert (await api.get("olga", "/v1/status")).json()["needs"] == []
