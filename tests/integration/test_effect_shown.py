"""An effect as an operator sees it: what holds it, whom it belongs to, and all that was found out about it."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.domain.effects import Outcome
from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli
from tests.support.parked import IN_DOUBT, parked, tried
from tests.support.reviewing import change, decide


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


async def doubted(store: PostgresStore) -> str:
    place = await parked(store)
    operation = (await decide(store, place.review_id)).decisions[0].operation_id
    await tried(store, place.job_id, operation, *IN_DOUBT, outcome=Outcome.unknown)
    return operation


async def examined(store: PostgresStore) -> str:
    """A doubted effect about which everything was found out that can be."""
    operation = await doubted(store)
    await change(
        store,
        "UPDATE signoff.effects SET class = 'queryable', provider = 'bank', probe_at = now(), waits_for = 'circuit',"
        " retry_at = now(), changed = 'the balance' WHERE operation_id = %s",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.probes (operation_id, attempt, actor, finding, reference, message)"
        " VALUES (%s, 1, 'worker-2', 'not_found', NULL, 'no such payment')",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.evidence (operation_id, fence, worker, outcome, attempt, settled)"
        " VALUES (%s, 1, 'worker-1', 'succeeded', 1, false)",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message)"
        " SELECT gen_random_uuid(), 'duplicate', operation_id, job_id, 'sent twice' FROM signoff.effects",
    )
    await change(
        store,
        "INSERT INTO signoff.operator_acts (actor, request_id, act, subject, reason, digest, body, outcome)"
        " VALUES ('olga', 'r-1', 'effect.probe', %s, 'the bank is back', '', '{}', '{}')",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.effects (operation_id, job_id, thread_id, agent, tool, args, digest, status, rule,"
        " policy_digest, origin, origin_operation) SELECT 'op-back', job_id, thread_id, agent, 'unpay', '{}', 'd',"
        " 'planned', 'r', 'p', 'compensation', operation_id FROM signoff.effects",
    )
    return operation


def test_everything_that_was_found_out(cli: Cli) -> None:
    operation = cli.world(examined)
    shown: dict[str, Any] = cli.json("olga", "effects", "show", operation)
    assert (shown["provider"], shown["waits_for"], shown["changed"]) == ("bank", "circuit", "the balance")
    assert shown["probe_at"]
    assert shown["last_dispatched_at"]
    assert shown["referred_by"] == ["op-back"]
    assert [(found["finding"], found["message"]) for found in shown["probes"]] == [("not_found", "no such payment")]
    assert [(found["attempt"], found["settled"]) for found in shown["evidence"]] == [(1, False)]
    assert [found["kind"] for found in shown["alarms"]] == ["duplicate"]
    assert [(found["act"], found["reason"]) for found in shown["acts"]] == [("effect.probe", "the bank is back")]
    other = cli.json("olga", "effects", "show", "op-back")
    assert other["origin"] == {"kind": "compensation", "operation_id": operation}


def test_on_the_screen(cli: Cli) -> None:
    operation = cli.world(examined)
    shown = cli.ok("olga", "effects", "show", operation)
    for part in (
        "held back by a circuit",
        "not found after try 1  by worker-2: no such payment",
        "succeeded of try 1  by worker-1",
        "duplicate: sent twice",
        "effect.probe  by olga: the bank is back",
        f"signoff effects probe {operation}",
        "signoff alarms acknowledge",
    ):
        assert part in shown, part
    assert "in_doubt (circuit)" in cli.ok("olga", "effects", "list", "--tool", "refund")
    assert f"the compensation of {operation}" in cli.ok("olga", "effects", "show", "op-back")


def test_what_waits_for_a_second_person(cli: Cli) -> None:
    async def found(store: PostgresStore) -> str:
        operation = await doubted(store)
        await change(
            store,
            "INSERT INTO signoff.settlements"
            " (id, operation_id, act, body, digest, reason, status, attempts, proposed_by)"
            " VALUES ('00000000-0000-4000-8000-000000000001', %s, 'skip', '{\"result\": \"Paid by hand\"}', '',"
            " 'at the counter', 'in_doubt', 1, 'olga')",
            operation,
        )
        return operation

    operation = cli.world(found)
    assert cli.json("olga", "effects", "show", operation)["settlement"]["proposed_by"] == "olga"
    shown = cli.ok("olga", "effects", "show", operation)
    assert "skip (result Paid by hand)  by olga: at the counter" in shown
    assert f"signoff effects confirm {operation} --settlement 00000000-0000-4000-8000-000000000001" in shown
    assert "signoff effects resolve" not in shown


def test_what_was_purged_says_so(cli: Cli) -> None:
    async def purged(store: PostgresStore) -> str:
        operation = await doubted(store)
        await change(
            store,
            "UPDATE signoff.effects SET status = 'succeeded', doubt_since = NULL, ended_at = now(), purged_at = now(),"
            " args = NULL",
        )
        return operation

    operation = cli.world(purged)
    for who in ("olga", "rita"):
        assert cli.json(who, "effects", "show", operation)["args"] is None
        assert cli.ok(who, "effects", "show", operation).count("no longer kept") == 2
    assert "arguments no longer kept" in cli.ok("olga", "jobs", "story", job_of(cli, operation))


def job_of(cli: Cli, operation: str) -> str:
    job: str = cli.json("olga", "effects", "show", operation)["job_id"]
    return job
