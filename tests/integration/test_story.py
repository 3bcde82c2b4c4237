"""One job's whole story: everything that happened, in order, and no more of it than its reader may see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.authority import Principal, Right
from signoff.domain.effects import Outcome
from signoff.domain.errors import JobNotFound
from signoff.domain.policy import review
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_story import show_story
from tests.support.api import open_api, open_store
from tests.support.cli import Cli
from tests.support.parked import IN_DOUBT, OPERATOR, REVIEWER, STRANGER, ended, parked, tried
from tests.support.reviewing import change, decide
from tests.support.till import APPROVE, Shop, Till

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def story(store: PostgresStore, job_id: UUID, who: Principal = OPERATOR) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        told = await show_story(conn, job_id, who)
    assert told["job"]["job_id"] == str(job_id)
    entries: list[dict[str, Any]] = told["story"]
    assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)
    return entries


def whats(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["what"] for entry in entries]


async def test_a_reviewed_call_is_told_from_its_submission_to_its_end(store: PostgresStore) -> None:
    till = Till()
    shop = Shop(store, till, [review("*", reviewers=["finance"])])
    job = await shop.open()
    await shop.say(job.id, APPROVE)
    await shop.run(job.id)
    entries = await story(store, job.id)
    assert [what for what in whats(entries) if what != "job.claimed"] == [
        "job.submitted",
        "review.requested",
        "call.proposed",
        "call.decided",
        "review.decided",
        "effect.planned",
        "review.resumed",
        "attempt.sent",
        "attempt.ended",
        "job.succeeded",
    ]
    by_what = {entry["what"]: entry for entry in entries}
    assert by_what["call.decided"]["who"] == "rita"
    assert by_what["call.proposed"]["facts"]["args"] == {"to": "ada", "amount": 30}
    operation = by_what["call.proposed"]["ids"]["operation"]
    assert {by_what[what]["ids"]["operation"] for what in ("effect.planned", "attempt.sent")} == {operation}
    assert by_what["attempt.ended"]["text"] == "try 1: succeeded"
    assert by_what["job.succeeded"]["text"] == "Done."


async def test_what_a_rule_hides_is_hidden_in_the_story_too(store: PostgresStore) -> None:
    shop = Shop(store, Till(), [review("*", reviewers=["finance"], hide=["to"])])
    job = await shop.open()
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "SECRET", "amount": 20}}}
    await shop.say(job.id, edit)
    await shop.run(job.id)
    for who in (REVIEWER, OPERATOR):
        told = json.dumps(await story(store, job.id, who))
        # The model's own answer to the agent is its result; the till's is not in the story.
        assert "SECRET" not in told
        assert '"ada"' not in told
        assert "[hidden]" in told
    revealing = replace(OPERATOR, rights=OPERATOR.rights | {Right.reveal})
    assert "SECRET" in json.dumps(await story(store, job.id, revealing))


async def doubted(store: PostgresStore) -> tuple[UUID, str]:
    place = await parked(store)
    operation = (await decide(store, place.review_id)).decisions[0].operation_id
    await tried(store, place.job_id, operation, *IN_DOUBT, outcome=Outcome.unknown)
    return place.job_id, operation


async def test_doubt_and_what_was_done_about_it(store: PostgresStore) -> None:
    job_id, operation = await doubted(store)
    await change(
        store,
        "INSERT INTO signoff.probes (operation_id, attempt, actor, finding) VALUES (%s, 1, 'worker-2', 'unknown')",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.evidence (operation_id, fence, worker, outcome, attempt, settled)"
        " VALUES (%s, 1, 'worker-1', 'succeeded', 1, true)",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message)"
        " VALUES (gen_random_uuid(), 'duplicate', %s, %s, 'sent twice')",
        operation,
        job_id,
    )
    await change(
        store,
        "INSERT INTO signoff.settlements (id, operation_id, act, body, digest, reason, status, attempts, proposed_by)"
        " VALUES (gen_random_uuid(), %s, 'skip', '{}', '', 'paid by hand', 'in_doubt', 1, 'olga')",
        operation,
    )
    await change(
        store,
        "INSERT INTO signoff.operator_acts (actor, request_id, act, subject, job_id, reason, digest, body, outcome)"
        " VALUES ('olga', 'r-1', 'probe', %s, %s, 'the bank is back', '', '{}', '{}')",
        operation,
        job_id,
    )
    entries = await story(store, job_id)
    told = {entry["what"]: (entry["who"], entry["text"]) for entry in entries}
    assert told["effect.moved"] == ("test", "dispatched to in_doubt: no answer")
    assert told["job.held"][1] == "effect_held: settle the effect"
    assert told["effect.probed"] == ("worker-2", "unknown")
    assert told["evidence.kept"] == ("worker-1", "succeeded, too late for its fence, which settled it")
    assert told["alarm.raised"] == (None, "duplicate: sent twice")
    assert told["settlement.proposed"] == ("olga", "skip, until another has confirmed it: paid by hand")
    assert told["operator.probe"] == ("olga", "the bank is back")


async def test_the_story_outlives_the_events(store: PostgresStore) -> None:
    job_id, _ = await doubted(store)
    other = await parked(store)
    await decide(store, other.review_id, {"type": "reject", "message": "no", "then": "stop"})
    await ended(store, other.job_id)
    before = {id_: whats(await story(store, id_)) for id_ in (job_id, other.job_id)}
    await change(store, "DELETE FROM signoff.events")
    assert {id_: whats(await story(store, id_)) for id_ in before} == before
    assert "job.held" in before[job_id]
    assert "job.succeeded" in before[other.job_id]


async def test_who_may_not_read_the_job_is_told_nothing(store: PostgresStore) -> None:
    job_id, _ = await doubted(store)
    with pytest.raises(JobNotFound):
        await story(store, job_id, STRANGER)


async def test_over_http(database_url: str) -> None:
    async with open_api(database_url) as api:
        job_id, _ = await doubted(api.store)
        answer = await api.get("shop", f"/v1/jobs/{job_id}/story")
        assert (answer.status_code, answer.json()["story"][0]["what"]) == (200, "job.submitted")
        assert (await api.get("sam", f"/v1/jobs/{job_id}/story")).status_code == 404


def test_on_the_screen(database_url: str, redis_url: str) -> None:
    cli = Cli(database_url, redis_url)
    job_id, operation = cli.world(doubted)
    shown = cli.ok("olga", "jobs", "story", job_id)
    assert f"job {job_id} of desk: awaiting_operator" in shown
    assert "attempt.sent  by worker-1: try 1" in shown
    assert f"operation {operation}  attempt 1" in shown
    assert cli.json("olga", "jobs", "story", job_id)["story"][0]["who"] == "shop"
    assert "[job_not_found]" in cli.refused("sam", "jobs", "story", job_id)
