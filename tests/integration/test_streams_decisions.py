"""Decisions that come in by the stream `signoff:decisions`: signed by an endpoint, or refused with an event."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from signoff.infra.redis.inbound_stream import GROUP, InboundStream
from signoff.infra.redis.intake import DECISIONS, TakeDecisions
from signoff.infra.redis.taking import LONGEST_WAIT
from signoff.infra.webhooks.signatures import new_secret
from tests.support.parked import Parked, parked
from tests.support.streams import World, drained, open_world, signed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url, http_max_body_bytes=10_000) as world:
        yield world


@pytest.fixture
async def taker(world: World) -> TakeDecisions:
    return world.decisions_taker()


@pytest.fixture
async def waiting(world: World) -> Parked:
    return await parked(world.store)


async def _status(world: World, waiting: Parked) -> str:
    [row] = await world.rows("SELECT status FROM signoff.reviews WHERE id = %s", waiting.review_id)
    return str(row["status"])


async def _decisions(world: World) -> list[dict[str, Any]]:
    return await world.rows("SELECT * FROM signoff.decisions")


async def _refused(world: World, waiting: Parked, code: str) -> dict[str, Any]:
    """One refusal, and nothing else changed: also no delivery id was used up."""
    [refusal] = await world.refusals()
    assert refusal["type"] == "signoff.decision.refused.v1"
    assert refusal["code"] == code
    assert await _decisions(world) == []
    assert await _status(world, waiting) == "pending"
    assert await world.rows("SELECT * FROM signoff.deliveries") == []
    assert (await world.redis.xpending(DECISIONS, GROUP))["pending"] == 0
    return refusal


async def test_a_signed_decision_counts(world: World, taker: TakeDecisions, waiting: Parked) -> None:
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id))

    await drained(taker)

    [decision] = await _decisions(world)
    assert (decision["type"], decision["reviewer"], decision["door"]) == ("approve", "rita", "stream")
    assert await _status(world, waiting) == "decided"
    assert await world.refusals() == []
    assert await world.redis.xlen(DECISIONS) == 0


async def test_the_same_entry_twice_counts_once(
    world: World, taker: TakeDecisions, waiting: Parked, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any) -> None:
        return None

    entry_id = await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id))
    with monkeypatch.context() as patch:
        patch.setattr(InboundStream, "done", lost)
        await drained(taker)
    await world.abandon(DECISIONS, entry_id)
    second = world.decisions_taker()
    await drained(second)

    assert len(await _decisions(world)) == 1
    assert await world.refusals() == []
    assert await world.redis.xlen(DECISIONS) == 0


async def test_a_replayed_envelope_changes_nothing(world: World, taker: TakeDecisions, waiting: Parked) -> None:
    envelope = world.envelope(waiting.review_id)
    for _ in range(2):
        await world.redis.xadd(DECISIONS, envelope)

    await drained(taker)

    assert len(await _decisions(world)) == 1


async def test_a_second_and_different_decision_is_told_who_won(
    world: World, taker: TakeDecisions, waiting: Parked
) -> None:
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id))
    reject = world.envelope(waiting.review_id, {"type": "reject"}, correlation_id="c-2")
    await world.redis.xadd(DECISIONS, reject)

    await drained(taker)

    [refusal] = await world.refusals()
    assert (refusal["code"], refusal["correlation_id"]) == ("already_decided", "c-2")
    assert refusal["details"]["winner"]["reviewer"] == "rita"


async def test_a_forged_signature_is_refused(world: World, taker: TakeDecisions, waiting: Parked) -> None:
    right = world.envelope(waiting.review_id, correlation_id="c-3")
    await world.redis.xadd(DECISIONS, {**right, **signed(new_secret(), right["body"])})

    await drained(taker)

    assert (await _refused(world, waiting, "signature_invalid"))["correlation_id"] == "c-3"


@pytest.mark.parametrize("field", ["webhook-id", "webhook-timestamp", "webhook-signature"])
async def test_an_unsigned_decision_is_refused(world: World, taker: TakeDecisions, waiting: Parked, field: str) -> None:
    envelope = world.envelope(waiting.review_id)
    del envelope[field]
    await world.redis.xadd(DECISIONS, envelope)

    await drained(taker)

    await _refused(world, waiting, "signature_invalid")


async def test_a_body_serialised_anew_is_refused(world: World, taker: TakeDecisions, waiting: Parked) -> None:
    envelope = world.envelope(waiting.review_id)
    envelope["body"] = json.dumps(json.loads(envelope["body"]), indent=1).encode()
    await world.redis.xadd(DECISIONS, envelope)

    await drained(taker)

    await _refused(world, waiting, "signature_invalid")


@pytest.mark.parametrize("age", [301 + 5, -(301 + 5)])
async def test_a_signature_that_was_stale_when_it_came_is_refused(
    world: World, taker: TakeDecisions, waiting: Parked, age: int
) -> None:
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id, age=age))

    await drained(taker)

    await _refused(world, waiting, "signature_invalid")


async def test_a_bearer_token_in_redis_is_no_signature(world: World, taker: TakeDecisions, waiting: Parked) -> None:
    unsigned = {"authorization": "Bearer sgn_secret", "webhook-signature": ""}
    await world.redis.xadd(DECISIONS, {**world.envelope(waiting.review_id), **unsigned})

    await drained(taker)

    refusal = await _refused(world, waiting, "signature_invalid")
    assert "sgn_secret" not in json.dumps(refusal)


@pytest.mark.parametrize("endpoint", ["unknown", "", "a\0b", b"\xff", "x" * 5000])
async def test_an_unknown_endpoint_is_refused(
    world: World, taker: TakeDecisions, waiting: Parked, endpoint: str | bytes
) -> None:
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id, endpoint=endpoint))

    await drained(taker)

    await _refused(world, waiting, "endpoint_not_found")


async def test_a_decision_that_waited_while_nobody_took_it_still_counts(
    world: World, taker: TakeDecisions, waiting: Parked
) -> None:
    arrived = int(time.time()) - int(LONGEST_WAIT.total_seconds()) + 60
    envelope = world.envelope(waiting.review_id, age=int(time.time()) - arrived)
    await world.redis.xadd(DECISIONS, envelope, id=f"{arrived * 1000}-0")

    await drained(taker)

    assert await _status(world, waiting) == "decided"


@pytest.mark.parametrize("waited", [LONGEST_WAIT + timedelta(minutes=1), timedelta(days=7)])
async def test_a_decision_that_waited_too_long_is_refused(
    world: World, taker: TakeDecisions, waiting: Parked, waited: timedelta
) -> None:
    age = int(waited.total_seconds())
    entry_id = f"{(int(time.time()) - age) * 1000}-0"
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id, age=age), id=entry_id)

    await drained(taker)

    await _refused(world, waiting, "signature_invalid")


async def test_an_entry_id_from_the_future_buys_no_time(world: World, taker: TakeDecisions, waiting: Parked) -> None:
    ahead = 900
    entry_id = f"{(int(time.time()) + ahead) * 1000}-0"
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id, age=-ahead), id=entry_id)

    await drained(taker)

    await _refused(world, waiting, "signature_invalid")


@pytest.mark.parametrize("field", ["body", "endpoint"])
async def test_an_entry_without_envelope_is_set_aside(
    world: World, taker: TakeDecisions, waiting: Parked, field: str
) -> None:
    envelope = world.envelope(waiting.review_id)
    body = envelope["body"]
    del envelope[field]
    entry_id = (await world.redis.xadd(DECISIONS, envelope)).decode()

    await drained(taker)

    await _refused(world, waiting, "invalid_request")
    [(kept_id, kept)] = await world.poison()
    assert kept_id == entry_id
    assert kept == body if field == "endpoint" else json.loads(kept) == envelope


@pytest.mark.parametrize("body", [b"not json", b'{"review_id": 1, "review_id": 2}'])
async def test_a_signed_body_that_is_not_json_is_set_aside(
    world: World, taker: TakeDecisions, waiting: Parked, body: bytes
) -> None:
    entry_id = (await world.redis.xadd(DECISIONS, {"endpoint": "chat", **signed(world.secret, body)})).decode()

    await drained(taker)

    await _refused(world, waiting, "malformed_json")
    assert await world.poison() == [(entry_id, body)]


async def test_a_body_that_is_too_large_is_not_even_checked(
    world: World, taker: TakeDecisions, waiting: Parked
) -> None:
    large = {"type": "reject", "message": "x" * 15_000}
    await world.redis.xadd(DECISIONS, world.envelope(waiting.review_id, large))

    await drained(taker)

    await _refused(world, waiting, "body_too_large")
