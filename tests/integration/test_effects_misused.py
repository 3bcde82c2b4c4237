"""Effects where a tool, an operator or a second runner does what one would not expect."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command

from signoff.domain.cancelling import cancel_job
from signoff.domain.effects import EffectStatus, Terms
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding, Settlement, replay_effect, resolve_effect, retry_job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Refused, effect
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import OPERATOR, PRODUCER
from tests.support.runners import ENVIRONMENT, Workshop

pytestmark = pytest.mark.anyio

SETTLED = Settlement(OPERATOR, "looked it up")


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


def acting(act: Any) -> BaseTool:
    if isinstance(act, BaseTool):
        return act

    @tool
    def send(to: str) -> Any:
        """Sends."""
        return act(to)

    return effect("opaque")(send)


def leaves(to: str) -> str:
    sys.exit(3)


def is_cancelled(to: str) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("act", [leaves, is_cancelled])
async def test_a_tool_that_ends_its_program_leaves_doubt_and_a_worker_that_goes_on(
    store: PostgresStore, act: Any
) -> None:
    shop = Workshop(store, [acting(act)], calling(("send", {"to": "ada"})), "Done.")
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)

    assert (job.status, job.error_code) == (JobStatus.awaiting_operator, "effect_held")
    (sent,) = await shop.effects(job.id)
    assert sent.status is EffectStatus.in_doubt


async def test_a_tool_that_returns_a_command_has_happened(store: PostgresStore) -> None:
    sent: list[str] = []

    def act(to: str) -> Any:
        sent.append(to)
        return Command(goto="model")

    shop = Workshop(store, [acting(act)], calling(("send", {"to": "ada"})), "Done.")
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)

    assert job.status is JobStatus.succeeded
    assert sent == ["ada"]
    (done,) = await shop.effects(job.id)
    assert done.status is EffectStatus.succeeded


async def test_what_was_not_applied_is_not_sent_for_a_job_that_was_cancelled(store: PostgresStore) -> None:
    def act(to: str) -> str:
        raise TimeoutError

    shop = Workshop(store, [acting(act)], calling(("send", {"to": "ada"})), "Done.")
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    (doubted,) = await shop.effects(job.id)
    await cancel_job(store, NoHints(), job.id, PRODUCER)
    after = await resolve_effect(
        store, NoHints(), doubted.operation_id, Finding.not_applied, SETTLED, None, environment=ENVIRONMENT
    )

    assert after.outcome["status"] == EffectStatus.cancelled
    await shop.alone.run(doubted.operation_id)
    assert [one.attempts for one in await shop.effects(job.id)] == [1]
    steps = "SELECT from_status, to_status, actor FROM signoff.effect_events ORDER BY position"
    assert [tuple(row.values()) for row in await shop.sql(steps)][-2:] == [
        ("in_doubt", "retry_wait", "olga"),
        ("retry_wait", "cancelled", "olga"),
    ]


async def test_a_replayed_call_that_was_not_applied_is_sent_again_though_its_job_has_ended(
    store: PostgresStore,
) -> None:
    answers: list[Any] = [Refused("closed"), TimeoutError(), "sent"]

    def act(to: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    shop = Workshop(store, [acting(act)], calling(("send", {"to": "ada"})), "Done.")
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    (failed,) = await shop.effects(job.id)
    await replay_effect(store, NoHints(), failed.operation_id, SETTLED)
    await shop.alone.run(failed.operation_id)
    await resolve_effect(
        store, NoHints(), failed.operation_id, Finding.not_applied, SETTLED, None, environment=ENVIRONMENT
    )
    await shop.alone.run(failed.operation_id)

    assert [one.status for one in await shop.effects(job.id)] == [EffectStatus.succeeded]


async def replayed_beside_its_run(store: PostgresStore, act: Any) -> tuple[Workshop, Any, str]:
    """A refused call that was replayed, and whose job has not taken the refusal into its history."""
    shop = Workshop(store, [acting(act)], calling(("send", {"to": "ada"})), "Done.", "Done.")
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    (held,) = await shop.effects(job.id)
    assert held.status is EffectStatus.in_doubt
    await shop.sql("UPDATE signoff.effects SET status = 'planned', doubt_since = NULL, alone = true")
    return shop, job.id, held.operation_id


async def test_a_run_waits_for_a_call_that_is_under_way_by_itself(store: PostgresStore) -> None:
    entered, left = asyncio.Event(), asyncio.Event()
    sent: list[str] = []

    @effect("opaque")
    @tool
    async def send(to: str) -> str:
        """Sends."""
        sent.append(to)
        if len(sent) == 1:
            raise TimeoutError
        entered.set()
        await left.wait()
        return "sent"

    shop, job_id, operation = await replayed_beside_its_run(store, send)
    alone = asyncio.create_task(shop.alone.run(operation))
    await entered.wait()
    job = await shop.run((await retry_job(store, NoHints(), job_id, OPERATOR, "mended")).id)
    assert (job.status, job.run_at > job.created_at) == (JobStatus.queued, True)
    assert [one.status for one in await shop.effects(job_id)] == [EffectStatus.dispatched]
    left.set()
    await alone
    await shop.sql("UPDATE signoff.jobs SET run_at = clock_timestamp()")

    assert (await shop.run(job_id)).status is JobStatus.succeeded
    assert [one.status for one in await shop.effects(job_id)] == [EffectStatus.succeeded]
    assert sent == ["ada", "ada"]


async def test_a_replayed_call_that_a_lost_run_has_sent_is_found(store: PostgresStore) -> None:
    def act(to: str) -> str:
        raise TimeoutError

    shop, _, operation = await replayed_beside_its_run(store, act)
    (job,) = await shop.sql("UPDATE signoff.jobs SET fence = fence + 1, status = 'queued' RETURNING fence")
    async with store.begin() as tx:
        planned = await tx.effects.lock(operation)
        assert planned is not None
        await tx.effects.dispatch(planned, Terms(), fence=job["fence"], worker="lost")
        found = await tx.effects.lapsed(10)
    assert [one.operation_id for one in found] == [operation]
