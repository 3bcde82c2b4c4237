"""The ledger and the events over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import Outcome, Step
from signoff.infra.hints import NoHints
from tests.support.api import Api, dump, open_api, until
from tests.support.parked import FAILED, IN_DOUBT, REVIEWER, Parked, parked, tried

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def approved(api: Api) -> tuple[Parked, str]:
    job = await parked(api.store)
    answers = parse_answers({"decisions": [{"type": "approve"}]})
    decided = await decide_review(
        api.store, NoHints(), job.review_id, answers, REVIEWER, door="test", environment="test"
    )
    return job, decided.decisions[0].operation_id


async def in_state(api: Api, steps: tuple[Step, ...], outcome: Outcome) -> str:
    job, operation = await approved(api)
    await tried(api.store, job.job_id, operation, *steps, outcome=outcome)
    return operation


async def act(api: Api, who: str | None, operation: str, verb: str, **body: Any) -> httpx.Response:
    return await api.post(who, f"/v1/effects/{operation}/{verb}", body)


async def test_effects_are_listed_and_shown_to_who_may_read_the_job(api: Api) -> None:
    job, operation = await approved(api)
    shown = (await api.get("shop", f"/v1/effects/{operation}")).json()
    assert (shown["status"], shown["tool"], shown["args"]) == ("planned", "refund", {"order": "A-1", "amount": 30})
    assert (shown["authority"]["reviewer"], shown["attempt_log"], shown["result"]) == ("rita", [], None)
    for parameters in ({}, {"status": "planned"}, {"tool": "refund"}, {"job": str(job.job_id)}):
        listed = (await api.get("rita", "/v1/effects", **parameters)).json()["effects"]
        assert [effect["operation_id"] for effect in listed] == [operation]
    assert (await api.get("rita", "/v1/effects", status="dead")).json()["effects"] == []
    assert (await api.get("sam", "/v1/effects")).json()["effects"] == []
    assert code(await api.get("sam", f"/v1/effects/{operation}")) == (404, "effect_not_found")
    assert code(await api.get("olga", "/v1/effects/op_unknown")) == (404, "effect_not_found")


async def test_effects_come_in_pages(api: Api) -> None:
    operations = [(await approved(api))[1] for _ in range(3)]
    first = (await api.get("olga", "/v1/effects", limit=2)).json()
    rest = (await api.get("olga", "/v1/effects", limit=2, cursor=first["next"])).json()
    found = [effect["operation_id"] for effect in first["effects"] + rest["effects"]]
    assert (found, rest["next"]) == (operations[::-1], None)


async def test_doubt_is_resolved_as_applied(api: Api) -> None:
    operation = await in_state(api, IN_DOUBT, Outcome.unknown)
    shown = (await api.get("olga", f"/v1/effects/{operation}")).json()
    assert (shown["status"], shown["attempt_log"][0]["outcome"]) == ("in_doubt", "unknown")
    done = await act(api, "olga", operation, "resolve", finding="applied", reason="seen in the log", reference="r-7")
    body = done.json()
    assert (done.status_code, body["status"], body["provider_reference"]) == (200, "succeeded", "r-7")
    assert body["result"] == {"status": "success", "content": "Done; the provider's reference is r-7."}
    last = body["history"][-1]
    assert (last["from"], last["to"], last["actor"]) == ("in_doubt", "succeeded", "olga")
    assert (last["reason"], last["reference"]) == ("seen in the log", "r-7")
    assert (await api.get("olga", f"/v1/jobs/{body['job_id']}")).json()["status"] == "queued"


async def test_doubt_is_resolved_as_not_applied(api: Api) -> None:
    operation = await in_state(api, IN_DOUBT, Outcome.unknown)
    done = await act(api, "olga", operation, "resolve", finding="not_applied", reason="nothing there")
    assert (done.json()["status"], done.json()["doubt_since"]) == ("retry_wait", None)


async def test_a_skip_puts_a_substitute_in_place(api: Api) -> None:
    operation = await in_state(api, IN_DOUBT, Outcome.unknown)
    done = await act(api, "olga", operation, "skip", reason="done by hand", substitute="Refunded by hand.")
    assert done.json()["status"] == "skipped"
    assert done.json()["result"]["content"] == "Refunded by hand."


async def test_a_failed_effect_is_replayed_under_a_new_generation(api: Api) -> None:
    operation = await in_state(api, FAILED, Outcome.refused)
    done = await act(api, "olga", operation, "replay", reason="the account is open again")
    assert (done.json()["status"], done.json()["generation"], done.json()["alone"]) == ("planned", 1, True)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("replay", {}),
        ("replay", {"reason": " "}),
        ("replay", {"reason": 7}),
        ("replay", {"reason": "x", "substitute": "y"}),
        ("resolve", {"reason": "x"}),
        ("resolve", {"reason": "x", "finding": "maybe"}),
        ("resolve", {"reason": "x", "finding": ["applied"]}),
        ("resolve", {"reason": "x", "finding": "applied"}),
        ("resolve", {"reason": "x", "finding": "applied", "reference": "a\0b"}),
        ("resolve", {"reason": "x", "finding": "not_applied", "result": "y"}),
        ("skip", {"reason": "x"}),
        ("skip", {"substitute": "x"}),
        ("skip", {"reason": "x", "substitute": {"lc": 2, "type": "constructor"}}),
    ],
)
async def test_incomplete_settlements_change_nothing(
    api: Api, database_url: str, verb: str, body: dict[str, Any]
) -> None:
    operation = await in_state(api, IN_DOUBT, Outcome.unknown)
    before = dump(database_url)
    assert code(await act(api, "olga", operation, verb, **body)) == (422, "invalid_request")
    assert dump(database_url) == before


async def test_settling_is_for_operators_and_from_the_right_state(api: Api, database_url: str) -> None:
    _, operation = await approved(api)
    before = dump(database_url)
    bodies: dict[str, dict[str, Any]] = {
        "replay": {"reason": "x"},
        "resolve": {"reason": "x", "finding": "not_applied"},
        "skip": {"reason": "x", "substitute": "y"},
    }
    codes = {"replay": "effect_not_replayable", "resolve": "effect_not_in_doubt", "skip": "effect_not_replayable"}
    for verb, body in bodies.items():
        assert code(await act(api, "shop", operation, verb, **body)) == (403, "right_missing")
        assert code(await act(api, None, operation, verb, **body)) == (401, "token_invalid")
        refused = await act(api, "olga", operation, verb, **body)
        assert code(refused) == (409, codes[verb])
        assert refused.json()["current_status"] == "planned"
        assert code(await act(api, "olga", "op_unknown", verb, **body)) == (404, "effect_not_found")
    assert dump(database_url) == before


async def test_events_are_read_from_a_cursor_by_operators(api: Api) -> None:
    job, _ = await approved(api)
    for name in ("shop", "rita"):
        assert code(await api.get(name, "/v1/events")) == (403, "right_missing")

    async def all_three() -> list[dict[str, Any]] | None:
        events: list[dict[str, Any]] = (await api.get("olga", "/v1/events")).json()["events"]
        return events if len(events) == 3 else None

    events = await until(all_three)
    assert [event["type"].split(".")[1:3] for event in events] == [
        ["job", "accepted"],
        ["review", "requested"],
        ["review", "decided"],
    ]
    assert [event["sequence"] for event in events] == ["1", "2", "3"]
    assert events[1]["data"]["review_id"] == str(job.review_id)
    cursor, found = "0-0", []
    for _ in range(4):
        page = (await api.get("olga", "/v1/events", after=cursor, limit=1)).json()
        found += page["events"]
        cursor = page["next"]
    assert found == events
    assert (await api.get("olga", "/v1/events", after=cursor)).json() == {"events": [], "next": cursor}
