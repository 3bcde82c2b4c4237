"""Every forbidden act with a signed envelope, through every door: refused by name, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from signoff.domain.endpoints import EVERYBODY, Endpoint
from signoff.domain.errors import EndpointNotFound
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.webhooks.signatures import new_secret
from tests.support.api import dump
from tests.support.parked import Parked, parked
from tests.support.signed_doors import DOORS
from tests.support.streams import World, open_world, signed

pytestmark = pytest.mark.anyio

APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}
# Refusals are told by events; the audit tells of who administers.
TOLD = {"events", "audit", "audit_seals", "subscription_sendings"}


@dataclass
class Scene:
    """Endpoints of every kind, and a review that waits."""

    world: World
    job: Parked
    secrets: dict[str, str] = field(default_factory=dict)

    def body(self, *decisions: Any, reviewer: str = "rita", job: Parked | None = None, **more: Any) -> bytes:
        said = {"decisions": list(decisions or (APPROVE,))} if "answer" not in more else {}
        review = str((job or self.job).review_id)
        return json.dumps({"review_id": review, "reviewer": reviewer, **said, **more}).encode()

    def sent(self, body: bytes | None = None, *, endpoint: str = "all", by: str | None = None, **how: Any) -> Any:
        """An entry to `endpoint`, signed as `by` signs."""
        return {"endpoint": endpoint, **signed(self.secrets[by or endpoint], body or self.body(), **how)}


@pytest.fixture
async def scene(database_url: str, redis_url: str) -> AsyncIterator[Scene]:
    async with open_world(database_url, redis_url) as world:
        scene = Scene(world, await parked(world.store))
        voices = {"all": EVERYBODY, "rotated": EVERYBODY, "revoked": EVERYBODY, "legal": "legal", "for-ravi": "@ravi"}
        async with world.store.begin() as tx:
            table = EndpointTable(tx.conn)
            for name, voice in voices.items():
                scene.secrets[name] = new_secret()
                await table.add(Endpoint(name, frozenset({voice})), scene.secrets[name])
            scene.secrets["rotated anew"] = new_secret()
            await table.rotate("rotated", scene.secrets["rotated anew"], timedelta(0))
            await table.revoke("revoked")
        scene.secrets["nowhere"] = new_secret()
        yield scene


def altered(scene: Scene) -> Any:
    return {**scene.sent(), "body": scene.body(REJECT)}


def serialised_anew(scene: Scene) -> Any:
    sent = scene.sent()
    return {**sent, "body": json.dumps(json.loads(sent["body"]), indent=1).encode()}


def with_a_token(scene: Scene) -> Any:
    return {**scene.sent(), "webhook-signature": "Bearer sgn_x"}


ACTS: Mapping[str, tuple[Callable[[Scene], Any], str]] = {
    "an unknown endpoint": (lambda s: s.sent(endpoint="nowhere"), "endpoint_not_found"),
    "a revoked endpoint": (lambda s: s.sent(endpoint="revoked"), "endpoint_not_found"),
    "an endpoint of another group": (lambda s: s.sent(endpoint="legal"), "endpoint_may_not_speak"),
    "an endpoint of another person": (lambda s: s.sent(endpoint="for-ravi"), "endpoint_may_not_speak"),
    "an endpoint for nobody known": (
        lambda s: s.sent(s.body(reviewer="nobody"), endpoint="legal"),
        "endpoint_may_not_speak",
    ),
    "a reviewer of another group": (lambda s: s.sent(s.body(reviewer="sam"), endpoint="legal"), "not_a_reviewer"),
    "a reviewer whom nobody knows": (lambda s: s.sent(s.body(reviewer="nobody")), "not_a_reviewer"),
    "a service": (lambda s: s.sent(s.body(reviewer="shop")), "not_a_reviewer"),
    "an old secret after the overlap": (lambda s: s.sent(endpoint="rotated"), "signature_invalid"),
    "another endpoint's secret": (lambda s: s.sent(by="legal"), "signature_invalid"),
    "an altered body": (altered, "signature_invalid"),
    "a body serialised anew": (serialised_anew, "signature_invalid"),
    "a stale timestamp": (lambda s: s.sent(age=305), "signature_invalid"),
    "a timestamp of the future": (lambda s: s.sent(age=-305), "signature_invalid"),
    "an id that is no id": (lambda s: {**s.sent(), "webhook-id": ""}, "signature_invalid"),
    "a token in place of a signature": (with_a_token, "signature_invalid"),
    "a used id with another body": (lambda s: s.sent(s.body(REJECT), delivery="used"), "delivery_mismatch"),
    "a form that is none": (lambda s: s.sent(s.body(dialect="ag-ui", answer={"resume": []})), "invalid_request"),
    "an answer without dialect": (lambda s: s.sent(s.body(answer={"resume": []})), "invalid_request"),
    "a malformed answer about what one may not see": (
        lambda s: s.sent(s.body(APPROVE, APPROVE, {"type": "?"}, reviewer="sam")),
        "review_not_found",
    ),
}


def facts(database_url: str) -> dict[str, list[str]]:
    return {name: rows for name, rows in dump(database_url).items() if name not in TOLD}


@pytest.mark.parametrize("door", DOORS)
async def test_a_forbidden_act_changes_nothing(scene: Scene, database_url: str, door: str) -> None:
    send = DOORS[door]
    other = await parked(scene.world.store)
    assert await send(scene.world, scene.sent(scene.body(job=other), delivery="used")) is None
    before = facts(database_url)
    for act, (make, code) in ACTS.items():
        assert await send(scene.world, make(scene)) == code, act
        assert facts(database_url) == before, act
    assert await send(scene.world, scene.sent(endpoint="rotated", by="rotated anew")) is None
    assert facts(database_url) != before


@pytest.mark.parametrize("door", DOORS)
async def test_what_an_endpoint_may_say(scene: Scene, door: str) -> None:
    send, store = DOORS[door], scene.world.store
    jobs = [await parked(store) for _ in range(3)]
    old = scene.sent(scene.body(job=jobs[0]), endpoint="for-ravi")
    assert await send(scene.world, old) == "endpoint_may_not_speak"
    assert await send(scene.world, scene.sent(scene.body(job=jobs[0], reviewer="ravi"), endpoint="for-ravi")) is None
    async with store.begin() as tx:
        await EndpointTable(tx.conn).change(Endpoint("for-ravi", frozenset({"finance"})))
        await EndpointTable(tx.conn).rotate("for-ravi", new_secret(), timedelta(minutes=5))
    assert await send(scene.world, scene.sent(scene.body(job=jobs[1]), endpoint="for-ravi")) is None
    async with store.begin() as tx:
        await tx.conn.execute("UPDATE signoff.principals SET groups = '{legal}' WHERE name = 'rita'")
    gone = scene.sent(scene.body(job=jobs[2]), endpoint="for-ravi")
    assert await send(scene.world, gone) == "endpoint_may_not_speak"


async def test_the_last_use_of_a_secret_is_kept_once_a_minute_and_not_for_a_forgery(scene: Scene) -> None:
    send, world = DOORS["webhook"], scene.world
    query = "SELECT last_used_at FROM signoff.endpoint_secrets WHERE endpoint = 'all'"

    async def last_use() -> Any:
        return (await world.rows(query))[0]["last_used_at"]

    assert await send(world, altered(scene)) == "signature_invalid"
    assert await last_use() is None
    assert await send(world, scene.sent(scene.body(reviewer="nobody"))) == "not_a_reviewer"
    first = await last_use()
    assert first is not None
    assert await send(world, scene.sent()) is None
    assert await last_use() == first
    await world.rows(
        "UPDATE signoff.endpoint_secrets SET last_used_at = last_used_at - interval '61 seconds' RETURNING id"
    )
    assert await send(world, scene.sent()) is None
    assert await last_use() > first


async def test_an_endpoint_that_is_revoked_while_it_decides_decides_nothing(scene: Scene) -> None:
    async with scene.world.store.begin() as tx:
        await tx.deliveries.remember("all", "first", "digest")
    async with scene.world.store.begin() as tx:
        await EndpointTable(tx.conn).revoke("all")
    for delivery in ("first", "second"):
        with pytest.raises(EndpointNotFound):
            async with scene.world.store.begin() as tx:
                await tx.deliveries.remember("all", delivery, "digest")
