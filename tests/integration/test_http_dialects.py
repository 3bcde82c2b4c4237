"""Reviews and decisions over HTTP in the dialects of other systems, by media type."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from signoff.domain.dialects import DIALECTS, media_type
from tests.support.api import Api, dump, open_api
from tests.support.dialects import golden
from tests.support.parked import Parked, parked, refund

pytestmark = pytest.mark.anyio

NAMES = [one.name for one in DIALECTS]
ODD: list[Any] = [
    None,
    True,
    0,
    1.5,
    "approve",
    "\ud800",
    [],
    [[]],
    {},
    {"\0": "\0"},
    {"decisions": {}},
    {"resume": [0]},
]


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


async def decide(api: Api, job: Parked, kind: str, body: Any) -> httpx.Response:
    async with api.client("rita") as client:
        path = f"/v1/reviews/{job.review_id}/decisions"
        return await client.post(path, content=json.dumps(body), headers={"content-type": kind})


async def show(api: Api, job: Parked, accept: str) -> httpx.Response:
    async with api.client("rita") as client:
        return await client.get(f"/v1/reviews/{job.review_id}", headers={"accept": accept})


async def items(api: Api, job: Parked) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await show(api, job, "application/json")).json()["items"]
    return found


EDITED = {"order": "A-1", "amount": 20}
EDITS: dict[str, Any] = {
    "langchain": {"type": "edit", "edited_action": {"name": "refund", "args": EDITED}},
    "langchain-js": {"decisions": [{"type": "edit", "editedAction": {"name": "refund", "args": EDITED}}]},
    "agent-inbox": [{"type": "edit", "args": {"action": "refund", "args": {"order": "A-1", "amount": "20"}}}],
    "ag-ui": {"resume": [{"status": "resolved", "payload": {"approved": True, "editedArgs": EDITED}}]},
}


@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_in_every_dialect_that_has_one(api: Api, name: str) -> None:
    job = await parked(api.store)
    body = EDITS[name]
    if name == "ag-ui":
        body["resume"][0]["interruptId"] = str(job.review_id)
    decided = await decide(api, job, media_type(name), body)
    assert decided.status_code == 200, decided.text
    (item,) = await items(api, job)
    assert (item["decision"]["type"], item["decision"]["args"]) == ("edit", EDITED)


async def test_what_is_shown_is_answered_by_its_ids_one_item_at_a_time(api: Api) -> None:
    job = await parked(api.store, refund(30), refund(31))
    first, second = (await show(api, job, media_type("ag-ui"))).json()["interrupts"]
    body = {"resume": [{"interruptId": second["id"], "status": "cancelled"}]}
    assert (await decide(api, job, media_type("ag-ui"), body)).json()["status"] == "pending"
    (left,) = (await show(api, job, media_type("openai-agents"))).json()["interruptions"]
    call_id = left["raw_item"]["call_id"]
    assert call_id == first["toolCallId"]
    approve = {"decisions": [{"call_id": call_id, "approve": True}]}
    assert (await decide(api, job, media_type("openai-agents"), approve)).json()["status"] == "decided"
    decisions = [item["decision"] for item in await items(api, job)]
    assert [(made["type"], made["then"]) for made in decisions] == [("approve", None), ("reject", "stop")]


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_not_of_the_form_is_refused_and_changes_nothing(api: Api, database_url: str, name: str) -> None:
    jobs = {1: await parked(api.store), 2: await parked(api.store, refund(30), refund(31))}
    before = dump(database_url)
    bodies = [(count, body) for count in jobs for body in [*ODD, *arbitrary()]]
    for count, body in [*bodies, *((case["items"], case["body"]) for case in golden(name)["refused"])]:
        refused = await decide(api, jobs[count], media_type(name), body)
        assert refused.status_code == 422, (body, refused.text)
        assert refused.headers["content-type"] == "application/problem+json"
    assert dump(database_url) == before


async def test_another_dialects_form_is_refused_and_changes_nothing(api: Api, database_url: str) -> None:
    job = await parked(api.store)
    before = dump(database_url)
    for spoken, body in EDITS.items():
        for name in set(NAMES) - {spoken}:
            assert (await decide(api, job, media_type(name), body)).status_code == 422, (spoken, name)
    assert dump(database_url) == before


@pytest.mark.parametrize("name", NAMES)
async def test_a_review_is_shown_in_the_dialect_that_is_accepted(api: Api, name: str) -> None:
    job = await parked(api.store)
    for accept in (media_type(name), f"text/html, {media_type(name).upper()};q=0.9, application/json"):
        found = await show(api, job, accept)
        assert found.headers["content-type"] == media_type(name)
        assert shape(found.json()) == shape(golden(name)["shown"])


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "text/html", "application/json, " + media_type("ag-ui")]
)
async def test_our_own_view_is_shown_otherwise(api: Api, accept: str) -> None:
    job = await parked(api.store)
    found = await show(api, job, accept)
    assert found.headers["content-type"] == "application/json"
    assert found.json()["review_id"] == str(job.review_id)


@pytest.mark.parametrize(
    "kind", ["application/vnd.signoff.cobol+json", "application/vnd.signoff.ag-ui", "application/vnd.signoff.+json"]
)
async def test_a_dialect_that_is_not_there(api: Api, database_url: str, kind: str) -> None:
    job = await parked(api.store)
    before = dump(database_url)
    for refused in (await decide(api, job, kind, {"type": "approve"}), await show(api, job, kind)):
        assert (refused.status_code, refused.json()["code"]) == (415, "unsupported_media_type")
    assert dump(database_url) == before


async def test_who_may_not_read_a_review_is_told_so_whatever_the_form(api: Api) -> None:
    job = await parked(api.store)
    for name in NAMES:
        async with api.client("sam") as client:
            path = f"/v1/reviews/{job.review_id}"
            sent = await client.post(f"{path}/decisions", content="7", headers={"content-type": media_type(name)})
            read = await client.get(path, headers={"accept": media_type(name)})
        assert (sent.status_code, read.status_code) == (404, 404)


def arbitrary() -> list[Any]:
    """Thirty bodies of the words that dialects have, the same in each run; none of them is an answer."""
    dice = random.Random(7)
    return [{dice.choice(["decisions", "resume", "type"]): [some_json(dice, 4)]} for _ in range(15)] + [
        [some_json(dice, 4)] for _ in range(15)
    ]


def some_json(dice: random.Random, depth: int) -> Any:
    words = ["type", "approve", "accept", "edit", "args", "interruptId", "status", "payload", "call_id", "message"]
    kind = dice.randrange(4 if depth else 2)
    if kind == 0:
        return dice.choice([None, True, 7, -0.0, 2**70, "", "\ud800", "call-1"])
    if kind == 1:
        return dice.choice(words)
    parts = [some_json(dice, depth - 1) for _ in range(dice.randrange(4))]
    return parts if kind == 2 else {dice.choice(words): part for part in parts}


def shape(value: Any) -> Any:
    """The keys of the outermost object; of the objects in a list of one."""
    return sorted(value) if isinstance(value, dict) else [sorted(part) for part in value[:1]]
