"""Standing approvals over HTTP and on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from signoff.domain.authority import Principal, Right
from signoff.domain.grants import Scope
from signoff.domain.limiting import limit
from signoff.domain.periods import Period
from signoff.infra.tokens import new_token
from tests.support.api import Api, open_api
from tests.support.parked import AGENT, REVIEWER, STRANGER, Parked, parked

pytestmark = pytest.mark.anyio

PATH = "/v1/standing-approvals"
BODY = {"agent": AGENT, "tool": "refund", "verdict": "allow", "when": "args.amount <= 20", "seconds": 3600}
STANDING = frozenset({Right.review, Right.standing})


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        for who in (replace(REVIEWER, name="stan"), replace(STRANGER, name="lea")):
            await _known(api, replace(who, rights=STANDING))
        yield api


async def _known(api: Api, who: Principal) -> None:
    token, hashed = new_token()
    async with api.store.begin() as tx:
        await tx.principals.create(who)
        await tx.principals.add_token(uuid4(), who.name, hashed)
    api.tokens = {**api.tokens, who.name: token}


async def listed(api: Api, who: str, **wanted: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(who, PATH, **wanted)).json()["standing_approvals"]
    return found


async def revoke(api: Api, who: str, standing_id: str) -> httpx.Response:
    async with api.client(who) as client:
        return await client.delete(f"{PATH}/{standing_id}")


async def events(api: Api) -> list[tuple[str, str, Any]]:
    async with api.store.connection() as conn:
        rows = await (
            await conn.execute(
                "SELECT type, actor, job_id, data FROM signoff.events WHERE type LIKE 'signoff.standing%%'"
                " ORDER BY position"
            )
        ).fetchall()
    return [(row["type"], row["actor"], row["data"]) for row in rows]


async def test_given_listed_and_taken_back(api: Api) -> None:
    given = await api.post("stan", PATH, {**BODY, "reason": "the sale"})
    view = given.json()
    assert (given.status_code, view["state"], view["created_by"]) == (201, "active", "stan")
    assert {name: view[name] for name in ("agent", "tool", "verdict", "when")}.items() <= BODY.items()
    assert (view["reason"], view["job_id"], view["thread_id"]) == ("the sale", None, None)
    for who in ("stan", "lea", "olga"):
        assert await listed(api, who) == [view]
        assert await listed(api, who, state="active") == [view]
    for who in ("rita", "shop"):
        assert await listed(api, who) == []
        assert (await revoke(api, who, view["standing_id"])).json()["code"] == "standing_approval_not_found"
    assert (await revoke(api, "lea", view["standing_id"])).json()["code"] == "right_missing"
    assert [(await revoke(api, "stan", view["standing_id"])).status_code for _ in range(2)] == [204, 204]
    assert await listed(api, "stan", state="active") == []
    (revoked,) = await listed(api, "stan", state="revoked")
    assert (revoked["state"], revoked["revoked_by"]) == ("revoked", "stan")
    told = await events(api)
    assert [kind for kind, _, _ in told] == ["signoff.standing.created.v1", "signoff.standing.revoked.v1"]
    assert {actor for _, actor, _ in told} == {"stan"}
    assert told[0][2]["standing_id"] == view["standing_id"]


async def test_an_operator_takes_it_back(api: Api) -> None:
    job = await parked(api.store)
    scope = {"job_id": str(job.job_id), "thread_id": job.thread_id}
    view = (await api.post("stan", PATH, {**BODY, "seconds": None, **scope})).json()
    assert {name: view[name] for name in scope} == scope
    assert (await revoke(api, "olga", view["standing_id"])).status_code == 204
    assert (await listed(api, "stan"))[0]["revoked_by"] == "olga"


async def test_who_may_not(api: Api) -> None:
    async def answer(who: str, **changes: Any) -> tuple[int, str]:
        response = await api.post(who, PATH, {**BODY, **changes})
        return response.status_code, response.json()["code"]

    assert await answer("rita") == (403, "right_missing")
    assert await answer("olga") == (403, "right_missing")
    assert await answer("lea") == (403, "not_a_reviewer")
    assert await answer("stan", agent="nobody") == (404, "agent_not_found")
    assert await answer("stan", tool="delete_all") == (404, "tool_not_found")
    assert await answer("stan", tool="lookup_order") == (422, "invalid_request")
    await limit(api.store, "stan", Scope(("send_*",)), Period(), by="admin")
    assert await answer("stan") == (403, "beyond_authority")
    assert await listed(api, "olga") == []
    assert (await api.post("stan", PATH, {**BODY, "tool": "send_email"})).status_code == 201


async def test_the_job_and_the_thread_have_to_be_there_for_who_stands(api: Api) -> None:
    job, other = await parked(api.store), await parked(api.store)
    elsewhere = await _of_another_agent(api, await parked(api.store))

    async def answer(**scope: Any) -> tuple[int, str]:
        response = await api.post("stan", PATH, {**BODY, "seconds": None, **scope})
        return response.status_code, response.json()["code"]

    assert await answer(job_id=str(uuid4())) == (404, "job_not_found")
    assert await answer(thread_id="nowhere") == (404, "thread_not_found")
    assert await answer(thread_id="no\x00where") == (422, "invalid_request")
    assert await answer(job_id=str(job.job_id), thread_id=other.thread_id) == (404, "job_not_found")
    assert await answer(job_id=str(elsewhere.job_id)) == (409, "agent_mismatch")
    async with api.store.begin() as tx:
        await tx.grants.set_membership("stan", ["legal"], None, "admin")
    assert await answer(tool="refund", job_id=str(job.job_id)) == (403, "not_a_reviewer")
    assert await listed(api, "olga") == []


async def _of_another_agent(api: Api, job: Parked) -> Parked:
    async with api.store.connection() as conn:
        await conn.execute("UPDATE signoff.jobs SET agent = 'another' WHERE id = %s", (job.job_id,))
    return job


BAD: list[Any] = [
    [],
    {},
    {**BODY, "id": "x"},
    {**BODY, "agent": None},
    {**BODY, "tool": "ref*"},
    {**BODY, "tool": "a\x00"},
    {**BODY, "verdict": "review"},
    {**BODY, "verdict": ["allow"]},
    {**BODY, "when": "args."},
    {**BODY, "when": {}},
    {**BODY, "seconds": None},
    {**BODY, "seconds": 91 * 86400},
    {**BODY, "seconds": -1},
    {**BODY, "expires_at": "2099-01-01T00:00:00Z"},
    {**BODY, "job_id": "17"},
    {**BODY, "job_id": 17},
    {**BODY, "thread_id": ""},
    {**BODY, "reason": ""},
    {**BODY, "reason": "x" * 2001},
]


async def test_what_is_malformed_is_refused(api: Api) -> None:
    for body in BAD:
        response = await api.post("stan", PATH, body)
        assert (response.status_code, response.json()["code"]) == (422, "invalid_request"), body
    assert (await api.get("stan", PATH, state="old")).status_code == 422
    assert await listed(api, "olga") == []
