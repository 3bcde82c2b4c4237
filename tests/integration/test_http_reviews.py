"""Reviews and decisions over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.api import Api, dump, open_api
from tests.support.parked import OTHER_PRODUCER, parked, refund, submitted

pytestmark = pytest.mark.anyio

APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url, pool_size=10) as api:
        yield api


async def decide(api: Api, who: str | None, review_id: Any, *decisions: Any) -> httpx.Response:
    return await api.post(who, f"/v1/reviews/{review_id}/decisions", {"decisions": list(decisions)})


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def test_a_review_holds_all_that_is_needed_to_decide_it(api: Api) -> None:
    job = await parked(api.store, refund(30, tool_call_id="call-1"))
    review = (await api.get("rita", f"/v1/reviews/{job.review_id}")).json()
    assert review["action_requests"] == [
        {"name": "refund", "args": {"order": "A-1", "amount": 30}, "description": "A refund"}
    ]
    assert review["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert (review["status"], review["submitted_by"], review["agent"]) == ("pending", "shop", "desk")
    assert review["items"][0]["tool_call_id"] == "call-1"
    assert review.pop("acts") == []
    assert (await api.get("rita", "/v1/reviews")).json() == {"reviews": [review], "next": None}
    decided = await api.post("rita", review["decide"], {"decisions": [APPROVE]})
    assert decided.status_code == 200
    after = (await api.get("rita", f"/v1/reviews/{job.review_id}")).json()
    assert after["items"][0]["decision"]["reviewer"] == "rita"
    assert after["decided_at"] is not None


async def test_reviews_are_seen_by_reviewers_the_submitter_and_operators_alone(api: Api) -> None:
    job = await parked(api.store)
    may = {"shop": 200, "rita": 200, "ravi": 200, "olga": 200, "other-shop": 404, "sam": 404, None: 401}
    assert {name: (await api.get(name, f"/v1/reviews/{job.review_id}")).status_code for name in may} == may
    counts = {name: len((await api.get(name, "/v1/reviews")).json()["reviews"]) for name in may if name}
    assert counts == {"shop": 1, "rita": 1, "ravi": 1, "olga": 1, "other-shop": 0, "sam": 0}


async def test_reviews_are_listed_by_status_and_page(api: Api) -> None:
    jobs = [await parked(api.store) for _ in range(3)]
    await decide(api, "rita", jobs[1].review_id, REJECT)
    pending = (await api.get("rita", "/v1/reviews", status="pending")).json()["reviews"]
    assert [review["review_id"] for review in pending] == [str(jobs[2].review_id), str(jobs[0].review_id)]
    decided = (await api.get("rita", "/v1/reviews", status="decided")).json()["reviews"]
    assert [review["review_id"] for review in decided] == [str(jobs[1].review_id)]
    first = (await api.get("rita", "/v1/reviews", limit=2)).json()
    rest = (await api.get("rita", "/v1/reviews", limit=2, cursor=first["next"])).json()
    assert [review["review_id"] for review in rest["reviews"]] == [str(jobs[0].review_id)]
    assert rest["next"] is None


async def test_who_may_not_read_a_review_learns_nothing_by_deciding(api: Api, database_url: str) -> None:
    job = await parked(api.store)
    before = dump(database_url)
    for name in ("sam", "other-shop"):
        assert code(await decide(api, name, job.review_id, APPROVE, APPROVE)) == (404, "review_not_found")
    for name in ("shop", "olga"):
        assert code(await decide(api, name, job.review_id, APPROVE)) == (403, "not_a_reviewer")
    assert code(await decide(api, None, job.review_id, APPROVE)) == (401, "token_invalid")
    assert code(await decide(api, "rita", uuid4(), APPROVE)) == (404, "review_not_found")
    assert dump(database_url) == before


async def test_the_same_decision_gets_the_same_answer_and_another_the_winner(api: Api) -> None:
    job = await parked(api.store)
    first = await decide(api, "rita", job.review_id, REJECT)
    again = await decide(api, "rita", job.review_id, REJECT)
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()
    other = await decide(api, "ravi", job.review_id, APPROVE)
    assert code(other) == (409, "already_decided")
    assert other.json()["winner"] == first.json()["decisions"][0]


async def test_twenty_equal_decisions_at_once_get_equal_answers(api: Api) -> None:
    job = await parked(api.store, refund(30), refund(31))
    answers = await asyncio.gather(*(decide(api, "rita", job.review_id, APPROVE, REJECT) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1


async def test_approve_and_reject_at_once_have_one_winner(api: Api) -> None:
    job = await parked(api.store)
    answers = await asyncio.gather(
        decide(api, "rita", job.review_id, APPROVE), decide(api, "ravi", job.review_id, REJECT)
    )
    won, lost = sorted(answers, key=lambda answer: answer.status_code)
    assert (won.status_code, code(lost)) == (200, (409, "already_decided"))
    assert lost.json()["winner"] == won.json()["decisions"][0]


async def test_a_bad_decision_is_refused_with_its_facts_and_a_correct_one_still_counts(api: Api) -> None:
    job = await parked(api.store, refund(30, tool_call_id="call-1", decisions=["approve", "reject"]))
    allowed = await decide(api, "rita", job.review_id, {"type": "respond", "message": "x"})
    assert code(allowed) == (422, "decision_not_allowed")
    assert allowed.json()["allowed"] == ["approve", "reject"]
    unknown = await decide(api, "rita", job.review_id, {**APPROVE, "tool_call_id": "nope"})
    assert code(unknown) == (422, "unknown_item")
    assert unknown.json()["items"][0]["tool_call_id"] == "call-1"
    assert code(await decide(api, "rita", job.review_id)) == (422, "invalid_request")
    assert (await decide(api, "rita", job.review_id, APPROVE)).status_code == 200


async def test_a_cancelled_review(api: Api) -> None:
    job = await parked(api.store, who=OTHER_PRODUCER)
    await submitted(api.store, OTHER_PRODUCER, thread_id=job.thread_id, cancel_pending=True)
    assert code(await decide(api, "rita", job.review_id, APPROVE)) == (409, "review_cancelled")
