"""Jobs that come in by the stream `signoff:jobs`: each once, acknowledged after the commit; or set aside."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.infra.embedded import EmbeddedValkey
from signoff.infra.redis.inbound_stream import GROUP, InboundStream
from signoff.infra.redis.intake import JOBS, TakeJobs
from signoff.infra.redis.taking import Intake
from tests.support.parked import AGENT
from tests.support.streams import World, drained, open_world, settled

pytestmark = pytest.mark.anyio

BODY = {"agent": AGENT, "input": "Refund order A-1"}


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    async with open_world(database_url, redis_url, http_max_body_bytes=10_000) as world:
        yield world


@pytest.fixture
async def taker(world: World) -> TakeJobs:
    return world.jobs_taker()


class Killed(BaseException):
    """What a process meets that is killed just then."""


async def _killed(*_: Any, **__: Any) -> None:
    raise Killed


def job(**changes: Any) -> dict[str, Any]:
    return {"job": json.dumps({**BODY, **changes})}


async def _jobs(world: World) -> list[dict[str, Any]]:
    return await world.rows("SELECT * FROM signoff.jobs ORDER BY created_at")


async def _pending(world: World) -> int:
    return int((await world.redis.xpending(JOBS, GROUP))["pending"])


async def test_an_entry_becomes_a_job_of_the_queue(world: World, taker: TakeJobs) -> None:
    entry_id = (await world.redis.xadd(JOBS, job(labels={"team": "a"}))).decode()

    await drained(taker)

    [found] = await _jobs(world)
    assert found["submitted_by"] == "queue"
    assert found["door"] == "stream"
    assert found["idempotency_key"] == f"stream:{entry_id}"
    assert found["labels"] == {"team": "a"}
    assert await _pending(world) == 0
    assert await world.redis.xlen(JOBS) == 0


async def test_an_entry_that_came_before_the_group_is_taken(world: World, taker: TakeJobs) -> None:
    await world.redis.xadd(JOBS, job())
    await drained(taker)
    await world.redis.flushall()
    await world.redis.xadd(JOBS, job(input="after the wipe"))

    await settled(taker)

    assert len(await _jobs(world)) == 2


async def test_a_restarted_redis_without_data_is_used_on(database_url: str) -> None:
    with EmbeddedValkey() as server:
        async with open_world(database_url, server.url) as world:
            taker = world.jobs_taker()
            await drained(taker)
            server.restart(keep_data=False)
            await world.redis.connection_pool.disconnect()
            await world.redis.xadd(JOBS, job())

            await settled(taker)

            assert len(await _jobs(world)) == 1
            await taker.close()


async def test_killed_between_commit_and_acknowledgement_it_is_one_job(
    world: World, taker: TakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_id = await world.redis.xadd(JOBS, job())
    with monkeypatch.context() as patch:
        patch.setattr(InboundStream, "done", _killed)
        with pytest.raises(Killed):
            await drained(taker)
    assert len(await _jobs(world)) == 1
    await world.abandon(JOBS, entry_id)

    second = world.jobs_taker()
    await drained(second)

    assert len(await _jobs(world)) == 1
    assert await _pending(world) == 0


async def test_an_entry_that_nobody_has_abandoned_is_left_to_its_consumer(
    world: World, taker: TakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.redis.xadd(JOBS, job())
    with monkeypatch.context() as patch:
        patch.setattr(Intake, "take_job", _killed)
        with pytest.raises(Killed):
            await drained(taker)

    second = world.jobs_taker()
    await drained(second)

    assert await _jobs(world) == []
    assert await _pending(world) == 1


async def test_the_senders_idempotency_key_goes_before_the_entrys(world: World, taker: TakeJobs) -> None:
    for _ in range(2):
        await world.redis.xadd(JOBS, job(idempotency_key="order-1"))
    await world.redis.xadd(JOBS, {**job(idempotency_key="order-1", input="another"), "correlation_id": "c-7"})

    await drained(taker)

    [found] = await _jobs(world)
    assert found["idempotency_key"] == "order-1"
    [refusal] = await world.refusals()
    assert (refusal["code"], refusal["correlation_id"]) == ("idempotency_mismatch", "c-7")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"agent": "nobody"}, "agent_not_found"),
        ({"input": ""}, "invalid_request"),
        ({"colour": "red"}, "invalid_request"),
        ({"input": "a\0b"}, "invalid_request"),
    ],
)
async def test_a_job_that_can_not_be_accepted_is_told_of(
    world: World, taker: TakeJobs, changes: dict[str, Any], code: str
) -> None:
    entry_id = (await world.redis.xadd(JOBS, {**job(**changes), "correlation_id": "c-1"})).decode()

    await drained(taker)

    [refusal] = await world.refusals()
    assert refusal["type"] == "signoff.job.refused.v1"
    assert (refusal["code"], refusal["entry_id"], refusal["correlation_id"]) == (code, entry_id, "c-1")
    assert refusal["message"]
    assert await _jobs(world) == []
    assert await _pending(world) == 0


async def test_a_revoked_queue_submits_nothing(world: World, taker: TakeJobs) -> None:
    await world.redis.xadd(JOBS, job())
    await drained(taker)
    async with world.store.begin() as tx:
        await tx.principals.revoke("queue")
    await world.redis.xadd(JOBS, job())

    await drained(taker)

    assert len(await _jobs(world)) == 1
    assert [refusal["code"] for refusal in await world.refusals()] == ["right_missing"]


async def test_what_an_operator_gave_the_queue_beyond_submitting_is_not_used(world: World, taker: TakeJobs) -> None:
    both = frozenset({Right.submit, Right.operate})
    async with world.store.begin() as tx:
        await tx.principals.create(Principal("queue", PrincipalKind.service, rights=both))
        await tx.threads.create("theirs", AGENT, "shop")
    await world.redis.xadd(JOBS, job(thread_id="theirs"))

    await drained(taker)

    assert [refusal["code"] for refusal in await world.refusals()] == ["thread_not_found"]


async def test_a_consumer_that_leaves_is_forgotten_unless_something_is_left_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, busy = world.jobs_taker(), world.jobs_taker()
    await drained(idle)
    await world.redis.xadd(JOBS, job())
    monkeypatch.setattr(Intake, "take_job", _killed)
    with pytest.raises(Killed):
        await drained(busy)

    await idle.close()
    await busy.close()

    [left] = await world.redis.xinfo_consumers(JOBS, GROUP)
    assert left["pending"] == 1
