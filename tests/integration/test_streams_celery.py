"""The two Celery tasks that are the work itself, without Celery."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from signoff.domain.errors import StoreUnavailable
from signoff.domain.events import EventType
from signoff.infra.redis.taking import Intake, Origin
from signoff.workers import intake
from tests.support.parked import AGENT, parked
from tests.support.streams import World, open_world

pytestmark = pytest.mark.anyio

BODY = {"agent": AGENT, "input": "Refund order A-1"}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url) as world:
        yield world


async def _keys(world: World) -> list[str]:
    rows = await world.rows("SELECT idempotency_key FROM signoff.jobs WHERE submitted_by = 'queue' ORDER BY created_at")
    return [row["idempotency_key"] for row in rows]


@pytest.mark.parametrize("body", [BODY, json.dumps(BODY)])
async def test_a_task_that_runs_twice_is_one_job(world: World, body: Any) -> None:
    for _ in range(2):
        await intake.submit_job(world.services, "task-1", body)

    assert await _keys(world) == ["celery:task-1"]
    assert await world.refusals() == []


async def test_whose_idempotency_key_goes_first(world: World) -> None:
    await intake.submit_job(world.services, "task-1", BODY, "given")
    await intake.submit_job(world.services, "task-2", {**BODY, "idempotency_key": "in the body"}, "given")

    assert await _keys(world) == ["given", "in the body"]


@pytest.mark.parametrize("key", [7, "", "x" * 5000, "a\0b"])
async def test_an_idempotency_key_that_is_none_is_refused(world: World, key: Any) -> None:
    await intake.submit_job(world.services, "task-1", BODY, key)

    [refusal] = await world.refusals()
    assert (refusal["code"], refusal["correlation_id"]) == ("invalid_request", "task-1")


@pytest.mark.parametrize("body", ["not json", '"\udc80"', {**BODY, "labels": {"a": float("nan")}}])
async def test_a_body_that_can_not_be_read_is_set_aside(world: World, body: Any) -> None:
    await intake.submit_job(world.services, "task-1", body)

    [(task_id, kept)] = await world.poison()
    assert task_id == "task-1"
    assert kept == (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
    assert [refusal["type"] for refusal in await world.refusals()] == ["signoff.job.refused.v1"]


async def test_a_signed_decision_counts(world: World) -> None:
    waiting = await parked(world.store)
    envelope = world.envelope(waiting.review_id)
    headers = {name.title(): envelope[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}

    for _ in range(2):
        await intake.decide_review(world.services, "task-1", "chat", headers, envelope["body"].decode())

    [decision] = await world.rows("SELECT reviewer, door FROM signoff.decisions")
    assert decision == {"reviewer": "rita", "door": "celery"}
    assert await world.refusals() == []


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer sgn_secret"}, {"webhook-id": 7}])
async def test_an_unsigned_decision_is_refused(world: World, headers: dict[str, Any]) -> None:
    waiting = await parked(world.store)
    envelope = world.envelope(waiting.review_id)

    await intake.decide_review(world.services, "task-1", "chat", headers, envelope["body"].decode())

    assert [refusal["code"] for refusal in await world.refusals()] == ["signature_invalid"]
    assert await world.rows("SELECT * FROM signoff.decisions") == []


@pytest.mark.parametrize("arguments", [(7, {}, "x"), ("chat", [], "x"), ("chat", {}, {"decisions": []})])
async def test_arguments_of_another_kind_are_set_aside(world: World, arguments: tuple[Any, Any, Any]) -> None:
    await intake.decide_review(world.services, "task-1", *arguments)

    assert len(await world.poison()) == 1
    assert [refusal["code"] for refusal in await world.refusals()] == ["invalid_request"]


async def test_while_the_database_is_away_the_task_is_to_be_offered_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Intake, "_submitter", away)
        with pytest.raises(StoreUnavailable):
            await intake.submit_job(world.services, "task-1", BODY)

    assert await world.refusals() == []


async def test_a_task_that_fails_for_no_known_reason_keeps_its_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(Intake, "_submitter", broken)

    await intake.submit_job(world.services, "task-1", BODY)

    assert await world.poison() == [("task-1", json.dumps(BODY).encode())]


async def test_a_job_that_somebody_else_submits_right_now_is_offered_again(world: World) -> None:
    async with world.store.begin() as other:
        assert await other.jobs.hold_key("queue", "key")
        with pytest.raises(Exception, match="handled right now") as caught:
            await intake.submit_job(world.services, "task-1", BODY, "key")
    assert getattr(caught.value, "code", None) == "unavailable"
    assert await world.refusals() == []


async def test_setting_a_message_aside_twice_tells_of_it_once(world: World) -> None:
    own = Intake(world.store, world.services.hints, world.services.settings)
    origin = Origin("signoff:jobs", "1-0", "stream")
    for _ in range(2):
        await own.set_aside(origin, EventType.job_refused, b"x", StoreUnavailable("no"))

    assert len(await world.refusals()) == 1
