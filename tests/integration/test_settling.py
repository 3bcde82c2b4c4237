"""Settling effects over HTTP: each act once, two people for high risk, and having the provider asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from signoff.domain.effects import EffectStatus, Outcome, Step
from tests.support.api import Api, open_api
from tests.support.operators import RISKY, hire, sent, set_policy
from tests.support.parked import FAILED, IN_DOUBT
from tests.support.reviewing import change, rows

pytestmark = pytest.mark.anyio

REFUSED_AND_HELD = (Step(EffectStatus.failed, doubt=False, reason="refused", holds=True),)
APPLIED = {"reason": "seen in the bank", "finding": "applied", "reference": "re_1"}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        api.tokens = {**api.tokens, **await hire(api.store)}
        yield api


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def act(api: Api, who: str, operation: str, verb: str, key: str | None = None, **body: Any) -> httpx.Response:
    headers = {} if key is None else {"Idempotency_Key": key}
    return await api.post(who, f"/v1/effects/{operation}/{verb}", {"reason": "it must be", **body}, **headers)


async def history(api: Api, operation: str) -> list[tuple[str, str]]:
    sql = "SELECT to_status, actor FROM signoff.effect_events WHERE operation_id = %s ORDER BY position"
    return [(row["to_status"], row["actor"]) for row in await rows(api.store, sql, operation)]


async def status(api: Api, operation: str) -> str:
    return str((await api.get("olga", f"/v1/effects/{operation}")).json()["status"])


# --- once ------------------------------------------------------------------------------------------------------


async def test_an_act_that_is_sent_twice_is_done_once_also_at_once(api: Api) -> None:
    _, operation = await sent(api.store, FAILED, Outcome.refused)
    answers = await asyncio.gather(*(act(api, "olga", operation, "replay", "key-1") for _ in range(4)))
    assert {answer.status_code for answer in answers} == {200}
    assert [answer.json()["generation"] for answer in answers] == [1] * 4
    assert (await history(api, operation))[-2:] == [("failed", "test"), ("planned", "olga")]
    assert code(await act(api, "olga", operation, "replay", "key-1", reason="other")) == (422, "idempotency_mismatch")
    assert code(await act(api, "olga", operation, "replay", "key-2")) == (409, "effect_not_replayable")
    (done,) = (await api.get("olga", f"/v1/effects/{operation}")).json()["acts"]
    assert (done["act"], done["actor"], done["request_id"]) == ("effect.replay", "olga", "key-1")


async def test_each_act_wants_a_reason(api: Api) -> None:
    _, operation = await sent(api.store, IN_DOUBT)
    for verb in ("resolve", "probe"):
        assert code(await act(api, "olga", operation, verb, reason=None)) == (422, "invalid_request")
    assert await status(api, operation) == "in_doubt"


# --- where it goes -----------------------------------------------------------------------------------------------


async def test_what_is_purged_is_not_sent_again(api: Api) -> None:
    _, operation = await sent(api.store, FAILED, Outcome.refused)
    await change(api.store, "UPDATE signoff.effects SET args = NULL, purged_at = clock_timestamp()")
    assert code(await act(api, "olga", operation, "replay")) == (409, "effect_purged")


@pytest.mark.parametrize(("steps", "alone"), [(FAILED, True), (REFUSED_AND_HELD, False)])
async def test_a_refusal_that_the_agent_was_not_told_is_replayed_in_its_run(
    api: Api, steps: tuple[Step, ...], alone: bool
) -> None:
    job_id, operation = await sent(api.store, steps, Outcome.refused)
    answer = (await act(api, "olga", operation, "replay")).json()
    assert (answer["status"], answer["alone"], answer["generation"]) == ("planned", alone, 1)
    assert (await api.get("olga", f"/v1/jobs/{job_id}")).json()["status"] == "queued"


async def test_a_refusal_that_is_held_can_be_skipped(api: Api) -> None:
    job_id, operation = await sent(api.store, REFUSED_AND_HELD, Outcome.refused)
    answer = (await act(api, "olga", operation, "skip", substitute="by hand")).json()
    assert (answer["status"], answer["result"]["content"]) == ("skipped", "by hand")
    assert (await api.get("olga", f"/v1/jobs/{job_id}")).json()["status"] == "queued"


# --- two people ----------------------------------------------------------------------------------------------------


async def proposed(api: Api, **body: Any) -> tuple[str, str]:
    """The operation, and a finding about it that waits for a second person."""
    await set_policy(api.store, RISKY)
    _, operation = await sent(api.store, IN_DOUBT)
    answer = await act(api, "olga", operation, "resolve", "first", **{**APPLIED, **body})
    assert (answer.status_code, answer.json()["status"]) == (202, "in_doubt")
    waiting = answer.json()["settlement"]
    assert (waiting["proposed_by"], waiting["act"]) == ("olga", "resolve")
    return operation, waiting["settlement_id"]


async def test_what_one_person_has_found_changes_nothing_until_another_confirms_it(api: Api) -> None:
    operation, finding = await proposed(api)
    again = await act(api, "olga", operation, "resolve", "first", **APPLIED)
    assert (again.status_code, again.json()["settlement"]["settlement_id"]) == (202, finding)
    assert (await history(api, operation))[-1] == ("in_doubt", "test")
    for who, expected in (("olga", "second_person_needed"), ("robot", "person_needed"), ("rita", "right_missing")):
        assert code(await act(api, who, operation, "confirm", settlement_id=finding)) == (403, expected)
    confirmed = await act(api, "oscar", operation, "confirm", settlement_id=finding, reason="I see it, too")
    assert (confirmed.status_code, confirmed.json()["status"]) == (200, "succeeded")
    assert (confirmed.json()["provider_reference"], confirmed.json()["settlement"]) == ("re_1", None)
    assert "reference is re_1" in confirmed.json()["result"]["content"]
    assert (await history(api, operation))[-1] == ("succeeded", "oscar")
    why = confirmed.json()["history"][-1]["reason"]
    assert why == "olga: seen in the bank; oscar: I see it, too"
    audited = await rows(
        api.store, "SELECT act, actor FROM signoff.audit WHERE act LIKE 'settlement.%%' ORDER BY position"
    )
    assert [tuple(row.values()) for row in audited] == [("settlement.created", "olga"), ("settlement.changed", "oscar")]
    assert code(await act(api, "oscar", operation, "confirm", settlement_id=finding)) == (404, "settlement_not_found")


async def test_a_second_finding_waits_its_turn_and_one_can_be_withdrawn(api: Api) -> None:
    operation, finding = await proposed(api)
    body = {"finding": "not_applied"}
    assert code(await act(api, "oscar", operation, "resolve", **body)) == (409, "settlement_open")
    assert (await act(api, "oscar", operation, "withdraw", settlement_id=finding)).json()["settlement"] is None
    answer = await act(api, "oscar", operation, "skip", substitute="by hand")
    other = answer.json()["settlement"]["settlement_id"]
    # What olga has seen is the finding that was withdrawn, or none at all.
    assert code(await act(api, "olga", operation, "confirm", settlement_id=finding)) == (404, "settlement_not_found")
    assert code(await act(api, "olga", operation, "confirm")) == (422, "invalid_request")
    skipped = (await act(api, "olga", operation, "confirm", settlement_id=other)).json()
    assert (skipped["status"], skipped["result"]["content"]) == ("skipped", "by hand")


@pytest.mark.parametrize(
    "meanwhile",
    [
        "UPDATE signoff.effects SET status = 'retry_wait', retry_at = clock_timestamp()",
        "UPDATE signoff.effects SET attempts = attempts + 1",
        "UPDATE signoff.principals SET rights = '{}' WHERE name = 'olga'",
    ],
)
async def test_a_finding_is_outdated_once_the_effect_or_its_finder_has_moved(api: Api, meanwhile: str) -> None:
    operation, finding = await proposed(api)
    await change(api.store, meanwhile)
    for _ in range(2):
        answer = await act(api, "oscar", operation, "confirm", "second", settlement_id=finding)
        assert code(answer) == (409, "settlement_outdated")
    (stored,) = await rows(api.store, "SELECT ending, ended_by FROM signoff.settlements")
    assert (stored["ending"], stored["ended_by"]) == ("outdated", "oscar")
    assert (await history(api, operation))[-1] == ("in_doubt", "test")


async def test_a_program_proposes_nothing_and_no_policy_means_two_people(api: Api) -> None:
    _, operation = await sent(api.store, IN_DOUBT)
    await change(api.store, "DELETE FROM signoff.agents")
    assert code(await act(api, "robot", operation, "resolve", **APPLIED)) == (403, "person_needed")
    assert (await act(api, "olga", operation, "resolve", **APPLIED)).status_code == 202


async def test_one_person_is_enough_where_the_policy_does_not_call_it_high_risk(api: Api) -> None:
    _, operation = await sent(api.store, IN_DOUBT)
    assert (await act(api, "olga", operation, "resolve", **APPLIED)).json()["status"] == "succeeded"


# --- probing -------------------------------------------------------------------------------------------------------


async def test_a_provider_that_can_be_asked_is_asked_now_and_once(api: Api) -> None:
    _, operation = await sent(api.store, IN_DOUBT)
    assert code(await act(api, "olga", operation, "probe")) == (409, "effect_not_probeable")
    await change(api.store, "UPDATE signoff.effects SET class = 'queryable', awaits_operator = true")
    answer = await act(api, "olga", operation, "probe", "key-1")
    assert answer.status_code == 202
    assert answer.json()["probe_at"] is not None
    await change(api.store, "UPDATE signoff.effects SET probe_at = NULL")
    assert (await act(api, "olga", operation, "probe", "key-1")).json()["probe_at"] is None
    assert (await act(api, "olga", operation, "resolve", **APPLIED)).status_code == 200
    assert code(await act(api, "olga", operation, "probe")) == (409, "effect_not_in_doubt")
