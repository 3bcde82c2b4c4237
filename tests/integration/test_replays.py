"""Replaying many: planned, applied once for each, refused once the world has changed. Over HTTP and by command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.domain.effects import EffectStatus, Outcome, Step
from signoff.domain.replay_plans import ReplayPlan
from signoff.domain.replaying import Applied, Did, check_plan
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.replaying import Pace, apply_plan
from tests.support.api import Api, open_api
from tests.support.cli import Cli
from tests.support.operators import RISKY, hire, sent, set_policy
from tests.support.parked import FAILED, IN_DOUBT, OPERATOR, ended, submitted
from tests.support.reviewing import change, rows

DEAD = (
    Step(EffectStatus.retry_wait, doubt=False),
    Step(EffectStatus.dead, doubt=False, reason="5 attempts used up"),
)
REASON = "the bank has opened"


async def some(store: PostgresStore) -> list[str]:
    """Operations: one refused, one dead, one in doubt."""
    return [
        (await sent(store, FAILED, Outcome.refused))[1],
        (await sent(store, DEAD, Outcome.not_applied))[1],
        (await sent(store, IN_DOUBT))[1],
    ]


async def failed_jobs(store: PostgresStore, count: int) -> list[str]:
    found = []
    for _ in range(count):
        job = await submitted(store)
        await ended(store, job.id, well=False)
        found.append(str(job.id))
    return found


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        api.tokens = {**api.tokens, **await hire(api.store)}
        yield api


async def plan(api: Api, **wanted: Any) -> dict[str, Any]:
    answer = await api.post("olga", "/v1/replays/plan", wanted)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def apply(api: Api, planned: dict[str, Any], who: str = "olga", **more: Any) -> httpx.Response:
    return await api.post(who, "/v1/replays/apply", {"plan": planned, "reason": REASON, **more})


def did(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [result["did"] for result in answer.json()["results"]]


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def sends(store: PostgresStore) -> int:
    """How often an operator has had something sent again, or run again."""
    (again,) = await rows(store, "SELECT count(*) FROM signoff.effect_events WHERE to_status = 'planned'")
    (retried,) = await rows(store, "SELECT count(*) FROM signoff.events WHERE type = 'signoff.job.retried.v1'")
    return int(again["count"]) + int(retried["count"])


# --- HTTP ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_plan_says_what_would_be_done_and_is_done_once(api: Api) -> None:
    operations = await some(api.store)
    (job_id,) = await failed_jobs(api.store, 1)
    planned = await plan(api, jobs=True)
    assert [(entry["id"], entry["would"]) for entry in planned["entries"]] == [
        (job_id, "retry"),
        (operations[0], "would_be_new"),
        (operations[1], "send_again_same_key"),
        (operations[2], "blocked"),
    ]
    before = await sends(api.store)
    assert code(await apply(api, planned, "shop")) == (403, "right_missing")
    answers = await asyncio.gather(*(apply(api, planned, who) for who in ("olga", "olga", "oscar")))
    assert await sends(api.store) == before + 3
    assert {tuple(did(answer)) for answer in answers} <= {(a, b, c) for a in DONE for b in DONE for c in DONE}
    assert did(await apply(api, planned)) == did(await apply(api, planned, "oscar", reason="x")) == ["repeated"] * 3
    assert await sends(api.store) == before + 3
    for operation, generation in zip(operations, (1, 0, 0), strict=True):
        assert (await api.get("olga", f"/v1/effects/{operation}")).json()["generation"] == generation


DONE = ("done", "repeated")


@pytest.mark.anyio
async def test_a_plan_is_refused_whole_before_anything_is_done_once_the_world_has_changed(api: Api) -> None:
    operations = await some(api.store)
    planned, before = await plan(api), await sends(api.store)
    await api.post("olga", f"/v1/effects/{operations[1]}/skip", {"reason": "by hand", "substitute": "done"})
    refused = await apply(api, planned)
    assert code(refused) == (409, "plan_outdated")
    (found,) = refused.json()["entries"]
    assert (found["id"], found["saw"]["status"], found["is"]["status"]) == (operations[1], "dead", "skipped")
    assert await sends(api.store) == before
    assert did(await apply(api, planned, skip_outdated=True)) == ["done", "left"]
    assert await sends(api.store) == before + 1


@pytest.mark.anyio
async def test_what_turns_risky_paused_or_purged_after_the_plan_is_not_sent(api: Api) -> None:
    await some(api.store)
    planned, before = await plan(api), await sends(api.store)
    await set_policy(api.store, RISKY)
    assert code(await apply(api, planned)) == (409, "plan_outdated")
    risky = await plan(api)
    assert {entry["would"] for entry in risky["entries"]} == {"blocked"}
    assert "high-risk" in risky["entries"][0]["reason"]
    assert did(await apply(api, risky)) == []
    assert await sends(api.store) == before


@pytest.mark.anyio
async def test_an_altered_plan_and_one_that_does_too_much_are_refused(api: Api) -> None:
    await some(api.store)
    planned = await plan(api)
    altered = {**planned, "entries": [{**entry, "would": "would_be_new"} for entry in planned["entries"]]}
    assert code(await apply(api, altered)) == (422, "plan_altered")
    # One who can make a digest gets no further: what is done is judged again.
    forged = ReplayPlan.from_dict(planned)
    entries = tuple(type(e).from_dict({**e.to_dict(), "would": "send_again_same_key"}) for e in forged.entries)
    remade = ReplayPlan(forged.id, forged.made_by, forged.made_at, forged.wanted, entries).to_dict()
    assert code(await apply(api, remade)) == (409, "plan_outdated")
    too_large = await apply(api, planned, limit=1)
    assert (code(too_large), too_large.json()["acts"]) == ((422, "plan_too_large"), 2)
    assert did(await apply(api, planned, limit=1, first=1)) == ["done"]
    assert did(await apply(api, planned)) == ["repeated", "done"]


@pytest.mark.anyio
async def test_filters_narrow_a_plan(api: Api) -> None:
    operations = await some(api.store)
    for wanted, count in (
        ({"status": ["dead"]}, 1),
        ({"tool": "refund"}, 3),
        ({"tool": "pay"}, 0),
        ({"agent": "desk", "older_than": "1h"}, 0),
        ({"operations": operations[:1]}, 1),
        ({"labels": {"team": "eu"}}, 0),
    ):
        assert len((await plan(api, **wanted))["entries"]) == count, wanted
    for unknown, error in (("operations", "effect_not_found"), ("job_ids", "job_not_found")):
        wanted = {"operations": operations[:1], unknown: ["00000000-0000-4000-8000-000000000000"]}
        assert code(await api.post("olga", "/v1/replays/plan", wanted)) == (404, error)
    for bad in ({"status": ["x"]}, {"older_than": "x"}, {"labels": {"a": 1}}, {"job_ids": ["x"]}, {"other": 1}):
        assert code(await api.post("olga", "/v1/replays/plan", bad)) == (422, "invalid_request")


@pytest.mark.anyio
async def test_a_race_for_one_item_refuses_that_one_alone(api: Api) -> None:
    await some(api.store)
    planned = ReplayPlan.from_dict(await plan(api))
    settings: dict[str, Any] = {"environment": "test", "first": None, "limit": 9}
    checked = await check_plan(api.store, planned, OPERATOR, **settings)
    # Between the check of the whole and this item's turn.
    await change(api.store, "UPDATE signoff.effects SET attempts = attempts + 1 WHERE status = 'failed'")
    results = await apply_plan(api.services, checked, OPERATOR, REASON, Pace())
    assert [(result.did, result.code) for result in results] == [(Did.refused, "plan_outdated"), (Did.done, None)]


@pytest.mark.anyio
async def test_what_was_stopped_goes_on_and_acts_once_for_each(api: Api) -> None:
    await failed_jobs(api.store, 4)
    planned = ReplayPlan.from_dict(await plan(api, jobs=True))
    seen: list[Applied] = []

    async def run(most: int) -> Sequence[str]:
        settings: dict[str, Any] = {"environment": "test", "first": None, "limit": 9}
        checked = await check_plan(api.store, planned, OPERATOR, **settings)
        pace = Pace(per_second=1000, is_stopped=lambda: len(seen) >= most)
        return [str(one.did) for one in await apply_plan(api.services, checked, OPERATOR, REASON, pace, seen.append)]

    assert await run(2) == ["done", "done"]
    assert await sends(api.store) == 2
    assert await run(100) == ["repeated", "repeated", "done", "done"]
    assert await sends(api.store) == 4


# --- command line --------------------------------------------------------------------------------------------------


def test_by_command_line(database_url: str, redis_url: str, tmp_path: Path) -> None:
    cli = Cli(database_url, redis_url)
    operations = cli.world(some)
    file = tmp_path / "plan.json"
    shown = cli.ok("olga", "replay", "plan", "--out", file)
    assert "would be new" in shown
    assert "1 blocked, 1 send again same key, 1 would be new" in shown
    assert "[invalid_request]" in cli.refused("olga", "replay", "plan", "--out", file)
    before = cli.world(sends)
    assert operations[0] in cli.ok("olga", "replay", "apply", file)
    assert cli.world(sends) == before  # a dry run
    assert "needs --reason" in cli.usage_error("olga", "replay", "apply", file, "--apply")
    act = ("replay", "apply", file, "--apply", "--reason", REASON)
    assert "[plan_too_large]" in cli.refused("olga", *act, "--limit", 1)
    (first,) = [json.loads(line) for line in cli.ok("olga", *act, "--first", 1, "--json").splitlines()]
    assert (first["did"], first["status"]) == ("done", "planned")
    assert "1 done, 1 repeated" in cli.ok("olga", *act, "--per-second", 100)
    assert cli.world(sends) == before + 2
