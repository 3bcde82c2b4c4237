"""Dead letters of all four kinds, by command line and HTTP: seen with their bytes, requeued, discarded."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import redis

from signoff.domain.effects import EffectStatus, Outcome, Step
from signoff.domain.running import hold
from signoff.infra.hints import DECIDE_REVIEW, INTAKE_QUEUE, SUBMIT_JOB
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.redis.intake import DECISIONS, JOBS
from tests.support.api import dump, open_api
from tests.support.cli import Cli
from tests.support.parked import AGENT, FAILED, claimed, parked, submitted, tried
from tests.support.reviewing import change, decide, rows
from tests.support.streams import drained, open_world

DEAD = (
    Step(EffectStatus.retry_wait, doubt=False, reason="not now"),
    Step(EffectStatus.dead, doubt=False, reason="5 attempts used up"),
)
GOOD = json.dumps({"agent": AGENT, "input": "Refund order A-1"}).encode()
WHY = ("--reason", "the sender has mended it")


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


async def message(store: PostgresStore, body: bytes = b"\xffno job", source: str = JOBS) -> str:
    sql = (
        "INSERT INTO signoff.poison_messages (stream, entry_id, body, error)"
        " VALUES (%s, gen_random_uuid()::text, %s, 'the body is not UTF-8') RETURNING position"
    )
    return f"message:{(await rows(store, sql, source, body))[0]['position']}"


async def dead_effect(store: PostgresStore) -> tuple[UUID, str]:
    place = await parked(store)
    operation = (await decide(store, place.review_id)).decisions[0].operation_id
    await tried(store, place.job_id, operation, *DEAD, outcome=Outcome.not_applied)
    return place.job_id, f"effect:{operation}"


async def refused_effect(store: PostgresStore) -> str:
    place = await parked(store)
    operation = (await decide(store, place.review_id)).decisions[0].operation_id
    await tried(store, place.job_id, operation, *FAILED, outcome=Outcome.refused)
    return f"effect:{operation}"


async def stuck_run(store: PostgresStore) -> str:
    job = await claimed(store, (await submitted(store)).id)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        await hold(tx, job, "cannot_resume", "the thread's state does not fit the job")
    return f"run:{job.id}"


async def dead_sending(store: PostgresStore) -> str:
    await change(
        store,
        "INSERT INTO signoff.subscriptions (id, name, kind, target, event_types, created_by, cursor_tx,"
        " cursor_position) VALUES (gen_random_uuid(), 'billing', 'webhook', 'https://billing.test', '{signoff.*}',"
        " 'olga', '0', 0)",
    )
    sql = (
        "INSERT INTO signoff.sendings (id, subscription_id, event_id, event_cursor, event_type, sequence, body, status,"
        " attempts, last_status, last_error, last_at) SELECT gen_random_uuid(), id, gen_random_uuid(), '7-7',"
        " 'signoff.job.held.v1', 0, '{}', 'dead', 10, 500, 'answered 500', clock_timestamp() FROM signoff.subscriptions"
        " RETURNING id"
    )
    return f"webhook:{(await rows(store, sql))[0]['id']}"


async def one_of_each(store: PostgresStore) -> list[str]:
    return [
        await message(store),
        (await dead_effect(store))[1],
        await stuck_run(store),
        await dead_sending(store),
    ]


def listed(cli: Cli, *options: object) -> list[str]:
    return [letter["id"] for letter in cli.json("olga", "dead-letters", "list", *options)["dead_letters"]]


def test_all_four_kinds_are_listed_newest_first_in_pages_and_kept_apart(cli: Cli) -> None:
    letters = cli.world(one_of_each)
    assert listed(cli) == letters[::-1]
    for letter in letters:
        assert listed(cli, "--kind", letter.partition(":")[0]) == [letter]
    assert listed(cli, "--kind", "run", "--kind", "webhook") == letters[:1:-1]
    assert listed(cli, "--agent", AGENT) == [letters[2], letters[1]]
    assert listed(cli, "--tool", "refund") == [letters[1]]
    assert listed(cli, "--error", "cannot_resume") == [letters[2]]
    assert listed(cli, "--older-than", "1h") == []
    first = cli.json("olga", "dead-letters", "list", "--limit", 3)
    assert listed(cli, "--limit", 3, "--cursor", first["next"]) == [letters[0]]


def test_each_is_shown_with_its_bytes_every_error_and_the_commands(cli: Cli) -> None:
    letters = cli.world(one_of_each)
    said = {
        "message": ("ff 6e 6f 20 6a 6f 62", "the body is not UTF-8"),
        "effect": ('{"order": "A-1", "amount": 30}', "try 1: not_applied"),
        "run": ("Refund order A-1", "cannot_resume: the thread's state does not fit the job"),
        "webhook": ("{}", "try 10: answered 500"),
    }
    for letter in letters:
        shown = cli.ok("olga", "dead-letters", "show", letter)
        for part in said[letter.partition(":")[0]]:
            assert part in shown, letter
        assert f"signoff dead-letters requeue {letter}" in shown
    raw = cli.json("olga", "dead-letters", "show", letters[0])
    assert base64.b64decode(raw["body"]) == b"\xffno job"
    chain = cli.json("olga", "dead-letters", "show", letters[1])["errors"]
    assert [error["text"] for error in chain] == [
        "try 1: not_applied: as the test wants it",
        "dispatched to retry_wait: not now",
        "retry_wait to dead: 5 attempts used up",
    ]


def test_what_is_not_there_is_not_found(cli: Cli) -> None:
    for letter in ("message:12", "effect:op_x", "run:7", "nothing:1", "message:x", "webhook:"):
        assert "[dead_letter_not_found]" in cli.refused("olga", "dead-letters", "show", letter)


def test_the_arguments_of_an_effect_are_masked(cli: Cli) -> None:
    async def hidden(store: PostgresStore) -> str:
        _, letter = await dead_effect(store)
        await change(store, "UPDATE signoff.effects SET hidden = '{order}'")
        return letter

    letter = cli.world(hidden)
    assert '{"order": "[hidden]", "amount": 30}' in cli.ok("olga", "dead-letters", "show", letter)


@pytest.mark.anyio
async def test_a_message_is_put_to_its_stream_with_another_body_and_becomes_one_job(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNOFF_REDIS_URL", redis_url)
    async with open_api(database_url) as api:
        letter = await message(api.store)
        path = f"/v1/dead-letters/{letter}/requeue"
        as_it_was = await api.post("olga", path, {"reason": "again"})
        assert (as_it_was.status_code, as_it_was.json()["code"]) == (400, "malformed_json")
        body = {"reason": "mended", "body": base64.b64encode(GOOD).decode()}
        done = await api.post("olga", path, body, Idempotency_Key="r-1")
        assert done.json() == {"id": letter, "settlement": "requeued", "source": JOBS, "repeated": False}
        again = await api.post("olga", path, body, Idempotency_Key="r-1")
        assert again.json() == {**done.json(), "repeated": True}
        other = await api.post("olga", path, body, Idempotency_Key="r-2")
        assert (other.status_code, other.json()["code"]) == (409, "dead_letter_settled")
        assert (await api.get("olga", f"/v1/dead-letters/{letter}")).json()["settled_by"] == "olga"
        assert (await api.get("olga", "/v1/dead-letters")).json()["dead_letters"] == []
        acts = await rows(api.store, "SELECT act, subject, reason FROM signoff.operator_acts")
        assert acts == [{"act": "dead_letter.requeue", "subject": letter, "reason": "mended"}]
    await taken(database_url, redis_url)


async def taken(database_url: str, redis_url: str) -> None:
    """The stream holds the message; twice, it is still one job."""
    async with open_world(database_url, redis_url) as world:
        ((_, fields),) = await world.redis.xrange(JOBS)
        await world.redis.xadd(JOBS, fields)
        await drained(world.jobs_taker())
        (job,) = await world.rows("SELECT input, submitted_by FROM signoff.jobs")
        assert job == {"input": "Refund order A-1", "submitted_by": "queue"}


def test_a_message_that_came_by_celery_becomes_that_task_again(cli: Cli) -> None:
    letter = cli.world(lambda store: message(store, GOOD, SUBMIT_JOB))
    cli.ok("olga", "dead-letters", "requeue", letter, *WHY)
    with redis.Redis.from_url(cli.redis_url) as client:
        (raw,) = client.lrange(INTAKE_QUEUE, 0, -1)
    task = json.loads(raw)
    assert task["headers"]["task"] == SUBMIT_JOB
    args, _, _ = json.loads(base64.b64decode(task["body"]))
    assert args == [GOOD.decode(), f"requeued:{letter.removeprefix('message:')}"]


def test_while_redis_is_away_nothing_is_settled(cli: Cli) -> None:
    letter = cli.world(lambda store: message(store, GOOD))
    said = cli.refused("olga", "dead-letters", "requeue", letter, *WHY, REDIS_URL="redis://127.0.0.1:1")
    assert "[broker_unavailable]" in said
    assert listed(cli) == [letter]


def test_a_signed_decision_is_discarded_and_never_requeued(cli: Cli) -> None:
    for source in (DECISIONS, DECIDE_REVIEW):
        letter = cli.world(partial(message, body=GOOD, source=source))
        assert "[dead_letter_not_requeueable]" in cli.refused("olga", "dead-letters", "requeue", letter, *WHY)
        assert cli.json("olga", "dead-letters", "discard", letter, *WHY)["settlement"] == "discarded"
        assert listed(cli) == []
        assert "discarded by olga" in cli.ok("olga", "dead-letters", "show", letter)


Verb = Callable[[Cli, str], Any]


def act(verb: str, *options: str) -> Verb:
    return lambda cli, letter: cli.json("olga", "dead-letters", verb, letter, *WHY, *options)


def test_an_effect_is_replayed_or_skipped(cli: Cli) -> None:
    for verb, status in (("requeue", "planned"), ("discard", "skipped")):
        job_id, letter = cli.world(dead_effect)
        assert act(verb)(cli, letter)["status"] == status
        shown = cli.json("olga", "effects", "show", letter.removeprefix("effect:"))
        assert (shown["status"], shown["history"][-1]["reason"]) == (status, WHY[1])
        assert cli.json("olga", "jobs", "show", job_id)["status"] == "queued"
        assert "[dead_letter_not_found]" in cli.refused("olga", "dead-letters", "show", letter)


def test_a_run_is_retried_or_cancelled(cli: Cli) -> None:
    for verb, status in (("requeue", "queued"), ("discard", "cancelled")):
        letter = cli.world(stuck_run)
        once = ("--request-id", f"r-{verb}")
        assert act(verb, *once)(cli, letter)["status"] == status
        assert act(verb, *once)(cli, letter)["repeated"]
        assert cli.json("olga", "jobs", "show", letter.removeprefix("run:"))["status"] == status


def test_what_is_none_is_not_settled_from_here(cli: Cli) -> None:
    job = cli.world(submitted)
    failed = cli.world(refused_effect)
    for letter in (f"run:{job.id}", failed):
        for verb in ("requeue", "discard"):
            assert "[dead_letter_not_found]" in cli.refused("olga", "dead-letters", verb, letter, *WHY)
    assert cli.json("olga", "jobs", "show", job.id)["status"] == "queued"


def test_a_webhook_is_sent_again_or_discarded(cli: Cli) -> None:
    letter = cli.world(dead_sending)
    assert act("requeue")(cli, letter)["settlement"] == "requeued"
    assert cli.json("olga", "subscriptions", "sendings")["sendings"][0]["status"] == "pending"
    assert "[dead_letter_not_found]" in cli.refused("olga", "dead-letters", "requeue", letter, *WHY)
    cli.world(lambda store: change(store, "UPDATE signoff.sendings SET status = 'dead'"))
    assert act("discard")(cli, letter)["settlement"] == "discarded"
    assert cli.json("olga", "subscriptions", "sendings", "billing")["sendings"][0]["status"] == "discarded"
    assert listed(cli) == []


@pytest.mark.anyio
async def test_they_are_for_operators_and_bad_requests_change_nothing(database_url: str) -> None:
    async with open_api(database_url) as api:
        letters = await one_of_each(api.store)
        before = dump(database_url)
        for letter in letters:
            path = f"/v1/dead-letters/{letter}"
            for name in ("shop", "rita"):
                answers = [await api.get(name, "/v1/dead-letters"), await api.get(name, path)]
                answers += [await api.post(name, f"{path}/{verb}", {"reason": "x"}) for verb in ("requeue", "discard")]
                assert {(found.status_code, found.json()["code"]) for found in answers} == {(403, "right_missing")}
            for verb in ("requeue", "discard"):
                for body in ({}, {"reason": " "}, {"reason": "x", "more": 1}):
                    assert (await api.post("olga", f"{path}/{verb}", body)).status_code == 422
        for body in ({"reason": "x", "body": "no base64!"}, {"reason": "x", "body": 7}):
            assert (await api.post("olga", f"/v1/dead-letters/{letters[0]}/requeue", body)).status_code == 422
        assert (await api.post("olga", f"/v1/dead-letters/{letters[1]}/requeue", {"reason": "x", "body": ""})).json()[
            "code"
        ] == "invalid_request"
        assert dump(database_url) == before
