"""Claims, assignments, comments and cancelling over HTTP, and the filters of the list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.api import Api, dump, open_api
from tests.support.parked import OTHER_PRODUCER, parked, refund

pytestmark = pytest.mark.anyio

EDIT = {"type": "edit", "edited_action": {"name": "refund", "args": {"order": "A-1", "amount": 600}}}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


async def do(api: Api, who: str, review_id: Any, act: str, **fields: Any) -> httpx.Response:
    return await api.post(who, f"/v1/reviews/{review_id}/{act}", fields)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def test_each_act_answers_with_the_review_as_it_is_then(api: Api) -> None:
    review_id = (await parked(api.store)).review_id
    taken = (await do(api, "rita", review_id, "claim", seconds=60)).json()
    assert taken["claimed_by"] == "rita"
    refused = await api.post("ravi", taken["decide"], {"decisions": [{"type": "approve"}]})
    assert (code(refused), refused.json()["claimed_by"]) == ((409, "review_claimed"), "rita")
    assert (await api.post("rita", f"/v1/reviews/{review_id}/release")).json()["claimed_by"] is None
    assigned = await do(api, "rita", review_id, "reassign", to=["@ravi"], reason="he knows", item_id=None)
    assert assigned.json()["items"][0]["assigned_to"] == ["@ravi"]
    said = await do(api, "shop", review_id, "comments", text="please")
    assert said.status_code == 201
    done = (await do(api, "olga", review_id, "cancel", reason="a test")).json()
    assert (done["status"], done["items"][0]["status"]) == ("cancelled", "cancelled")
    assert [(act["act"], act["actor"], act["message"]) for act in done["acts"]] == [
        ("claimed", "rita", None),
        ("released", "rita", None),
        ("reassigned", "rita", "he knows"),
        ("commented", "shop", "please"),
        ("cancelled", "olga", "a test"),
    ]
    assert code(await do(api, "rita", review_id, "claim")) == (409, "review_cancelled")


async def test_what_is_wrong_or_not_allowed_changes_nothing(api: Api, database_url: str) -> None:
    review_id = (await parked(api.store)).review_id
    before = dump(database_url)
    for act in ("claim", "reassign", "comments", "cancel"):
        assert code(await do(api, "rita", review_id, act, more=1)) == (422, "invalid_request")
    for wrong in ({"to": ["@sam"]}, {"to": None}, {"to": [], "item_id": "x"}, {"to": [], "reason": 7}):
        assert code(await do(api, "rita", review_id, "reassign", **wrong)) == (422, "invalid_request")
    for seconds in ("60", True, 0, 1e9):
        assert code(await do(api, "rita", review_id, "claim", seconds=seconds)) == (422, "invalid_request")
    body: dict[str, dict[str, Any]] = {
        "claim": {},
        "release": {},
        "reassign": {"to": []},
        "comments": {"text": "x"},
        "cancel": {"reason": "x"},
    }
    for act, fields in body.items():
        assert code(await do(api, "sam", review_id, act, **fields)) == (404, "review_not_found")
        if act not in ("release", "comments"):
            assert code(await do(api, "shop", review_id, act, **fields)) == (403, "not_a_reviewer")
    assert dump(database_url) == before


async def test_a_call_that_was_amended_is_decided_by_who_has_seen_it(api: Api) -> None:
    review_id = (await parked(api.store, refund(terms={"edits_need_another": True}))).review_id
    small = {**EDIT, "edited_action": {"name": "refund", "args": {"order": "A-1", "amount": 20}}}
    path = f"/v1/reviews/{review_id}/decisions"
    assert (await api.post("rita", path, {"decisions": [small]})).json()["status"] == "pending"
    stale = await api.post("ravi", path, {"decisions": [{"type": "approve"}]})
    assert (code(stale), stale.json()["changed"]["revision"]) == ((409, "stale_decision"), 2)
    early = await api.post("ravi", path, {"decisions": [{"type": "approve", "revision": 3}]})
    assert (code(early), early.json()["revision"]) == ((409, "early_decision"), 2)
    assert (await api.post("ravi", path, {"decisions": [{"type": "approve", "revision": 2}]})).status_code == 200


async def test_the_list_has_filters(api: Api) -> None:
    mail = await parked(api.store, refund(tool="send_email", reviewers=["legal"]), who=OTHER_PRODUCER)
    twice = await parked(api.store, refund(terms={"approvals": 2}))
    plain = await parked(api.store)

    async def found(who: str, **wanted: Any) -> list[str]:
        reviews = (await api.get(who, "/v1/reviews", **wanted)).json()["reviews"]
        return [review["review_id"] for review in reviews]

    of_mail, of_twice, of_plain = str(mail.review_id), str(twice.review_id), str(plain.review_id)
    assert await found("olga") == [of_plain, of_twice, of_mail]
    assert await found("olga", tool="refund") == [of_plain, of_twice]
    assert await found("olga", reviewer="legal", agent="desk") == [of_mail]
    assert await found("olga", job_id=str(twice.job_id)) == [of_twice]
    assert await found("olga", agent="other") == []
    assert await found("olga", mine="true") == []
    assert await found("rita", mine="true") == [of_plain, of_twice]
    await api.post("rita", f"/v1/reviews/{of_twice}/decisions", {"decisions": [{"type": "approve"}]})
    await do(api, "ravi", of_plain, "claim")
    assert await found("rita", mine="true") == []
    assert await found("ravi", mine="true", status="pending") == [of_plain, of_twice]
    await do(api, "olga", of_plain, "reassign", to=["@rita"])
    assert (await found("rita", mine="true"), await found("ravi", mine="true")) == ([of_plain], [of_twice])
    for wanted in ({"reviewer": "\x00"}, {"tool": "\x00"}, {"job_id": "x"}, {"mine": "maybe"}):
        assert (await api.get("olga", "/v1/reviews", **wanted)).status_code == 422
