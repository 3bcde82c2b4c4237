"""The webhook door: signed envelopes, each delivery once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from standardwebhooks import Webhook

from signoff.domain.endpoints import EVERYBODY, Endpoint
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.webhooks.signatures import new_secret
from tests.support.api import Api, dump, open_api
from tests.support.parked import Parked, parked

pytestmark = pytest.mark.anyio

APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}


class Door:
    """An endpoint as its owner uses it."""

    def __init__(self, api: Api, secret: str) -> None:
        self.api = api
        self.secret = secret

    async def send(
        self, body: bytes, *, id_: str | None = None, at: datetime | None = None, name: str = "bot", **replaced: str
    ) -> httpx.Response:
        """`replaced` are the webhook headers to send in place of the true ones, without their prefix."""
        id_, at = id_ or f"msg_{uuid4()}", at or datetime.now(UTC)
        headers = {
            "id": id_,
            "timestamp": str(int(at.timestamp())),
            "signature": Webhook(self.secret).sign(id_, at, body.decode()),
            **replaced,
        }
        sent = {"content-type": "application/json", **{f"webhook-{key}": value for key, value in headers.items()}}
        async with self.api.client(None) as client:
            return await client.post(f"/v1/webhooks/{name}/decisions", content=body, headers=sent)


@pytest.fixture
async def door(database_url: str) -> AsyncIterator[Door]:
    async with open_api(database_url) as api:
        secret = new_secret()
        async with api.store.begin() as tx:
            await EndpointTable(tx.conn).add(Endpoint("bot", frozenset({EVERYBODY})), secret)
        yield Door(api, secret)


def envelope(job: Parked, *decisions: Any, reviewer: str = "rita", **more: Any) -> bytes:
    body = {"review_id": str(job.review_id), "reviewer": reviewer, "decisions": list(decisions), **more}
    return json.dumps(body).encode()


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def test_a_signed_envelope_decides_in_the_reviewers_name(door: Door) -> None:
    job = await parked(door.api.store)
    answer = await door.send(envelope(job, APPROVE))
    assert (answer.status_code, answer.json()["status"]) == (200, "decided")
    review = (await door.api.get("rita", f"/v1/reviews/{job.review_id}")).json()
    assert review["items"][0]["decision"]["reviewer"] == "rita"


async def test_a_delivery_counts_once(door: Door) -> None:
    job = await parked(door.api.store)
    first = await door.send(envelope(job, APPROVE), id_="msg_1")
    again = await door.send(envelope(job, APPROVE), id_="msg_1", at=datetime.now(UTC) - timedelta(minutes=1))
    assert first.json() == again.json()
    other = await parked(door.api.store)
    reused = await door.send(envelope(other, APPROVE), id_="msg_1")
    assert code(reused) == (409, "delivery_mismatch")
    assert (await door.api.get("rita", f"/v1/reviews/{other.review_id}")).json()["status"] == "pending"


async def test_a_refused_envelope_uses_up_nothing(door: Door, database_url: str) -> None:
    job = await parked(door.api.store)
    before = dump(database_url)
    assert code(await door.send(envelope(job, APPROVE, APPROVE), id_="msg_1")) == (422, "wrong_decision_count")
    assert dump(database_url) == before
    assert (await door.send(envelope(job, APPROVE), id_="msg_1")).status_code == 200


async def test_somebody_unknown_is_refused_like_somebody_without_the_right(door: Door, database_url: str) -> None:
    job = await parked(door.api.store)
    async with door.api.store.begin() as tx:
        await tx.principals.revoke("ravi")
    before = dump(database_url)
    details = set()
    for name in ("nobody", "sam", "ravi", "shop", "olga"):
        refused = await door.send(envelope(job, APPROVE, reviewer=name))
        assert code(refused) == (403, "not_a_reviewer")
        details.add(refused.text.replace(name, "<name>"))
    assert len(details) == 1
    assert dump(database_url) == before


async def test_a_forged_stale_or_changed_request_is_refused(door: Door, database_url: str) -> None:
    job = await parked(door.api.store)
    body = envelope(job, APPROVE)
    before = dump(database_url)
    refusals = [
        await door.send(body, at=datetime.now(UTC) - timedelta(minutes=6)),
        await door.send(body, at=datetime.now(UTC) + timedelta(minutes=6)),
        await door.send(body, id="msg_other"),
        await door.send(body, id=""),
        await door.send(body, timestamp="soon"),
        await door.send(body, signature="v1"),
        await door.send(body, signature="v1,not base64"),
        await door.send(body, signature=Webhook(new_secret()).sign("m", datetime.now(UTC), "")),
    ]
    assert {code(refused) for refused in refusals} == {(401, "signature_invalid")}
    assert all("www-authenticate" in refused.headers for refused in refusals)
    assert dump(database_url) == before


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "malformed_json")),
        (b"{", (400, "malformed_json")),
        (b'{"reviewer": "a", "reviewer": "b"}', (400, "malformed_json")),
        (b"[]", (422, "invalid_request")),
        (b"{}", (422, "invalid_request")),
        (b'{"review_id": 7, "reviewer": "rita", "decisions": [{"type": "approve"}]}', (422, "invalid_request")),
        (b'{"review_id": "x", "reviewer": "rita", "decisions": [{"type": "approve"}]}', (422, "invalid_request")),
    ],
)
async def test_a_signed_body_that_is_no_envelope(door: Door, body: bytes, expected: tuple[int, str]) -> None:
    assert code(await door.send(body)) == expected


@pytest.mark.parametrize("reviewer", [None, 7, "", "a\0b", "\ud800", "x" * 201])
async def test_a_reviewer_that_is_no_name(door: Door, reviewer: Any) -> None:
    job = await parked(door.api.store)
    body = json.dumps({"review_id": str(job.review_id), "reviewer": reviewer, "decisions": [APPROVE]}).encode()
    assert code(await door.send(body)) == (422, "invalid_request")


async def test_fields_beside_the_envelopes_are_refused(door: Door) -> None:
    job = await parked(door.api.store)
    assert code(await door.send(envelope(job, APPROVE, extra=1))) == (422, "invalid_request")
