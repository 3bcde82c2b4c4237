"""A replayed call whose worker was lost leaves doubt by itself where its tool's class has a way out, and only there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.tools import tool

from signoff.domain.effects import EffectStatus
from signoff.domain.operating import Settlement, replay_effect
from signoff.domain.policy import deny
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Refused, effect
from signoff.workers.declaring import terms_of
from signoff.workers.dispatcher import DoubtLapsedEffects
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import OPERATOR
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

KEYED: dict[str, Any] = {"effect_class": "keyed", "window": timedelta(hours=1)}
REPEATABLE: list[dict[str, Any]] = [{"effect_class": "read"}, {"effect_class": "idempotent"}, KEYED]
LATER = "UPDATE signoff.effects SET first_dispatched_at = first_dispatched_at - interval '2 hours'"
USED_UP = "UPDATE signoff.effects SET attempts = 5; UPDATE signoff.attempts SET number = 5 WHERE number = 2"
ANSWERED = "UPDATE signoff.attempts SET outcome = 'refused'"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def lost(store: PostgresStore, sent: list[str], effect_class: str, **terms: Any) -> tuple[Workshop, str]:
    """A refused call, replayed after its job had ended, whose worker was killed after the dispatch."""

    @effect(effect_class, **terms)
    @tool
    async def send(to: str) -> str:
        """Sends."""
        sent.append(to)
        if len(sent) == 1:
            raise Refused("closed")
        return "sent"

    shop = Workshop(store, [send], calling(("send", {"to": "ada"})), "Done.")
    await shop.enrol()
    (failed,) = await shop.effects((await shop.run((await shop.submit()).id)).id)
    await replay_effect(store, NoHints(), failed.operation_id, Settlement(OPERATOR, "it has opened"))
    async with store.begin() as tx:
        planned = await tx.effects.lock(failed.operation_id)
        assert planned is not None
        lapsed = await tx.now() - timedelta(seconds=1)
        await tx.effects.dispatch(planned, terms_of(send), fence=-2, worker="lost", lease_until=lapsed)
    await DoubtLapsedEffects(store).step()
    return shop, failed.operation_id


async def offered(store: PostgresStore) -> list[str]:
    async with store.begin() as tx:
        return [operation_id for _, operation_id in await tx.effects.take_due_alone(timedelta(), 10)]


async def status(shop: Workshop) -> EffectStatus:
    (row,) = await shop.sql("SELECT status FROM signoff.effects")
    return EffectStatus(row["status"])


@pytest.mark.parametrize("terms", REPEATABLE)
async def test_what_a_lost_worker_has_sent_is_sent_again_where_that_is_safe(
    store: PostgresStore, terms: dict[str, Any]
) -> None:
    sent: list[str] = []
    shop, operation = await lost(store, sent, **terms)
    assert await status(shop) is EffectStatus.in_doubt

    assert await offered(store) == [operation]
    await shop.alone.run(operation)

    assert await status(shop) is EffectStatus.succeeded
    assert sent == ["ada", "ada"]
    history = await shop.sql("SELECT from_status, to_status FROM signoff.effect_events ORDER BY position")
    assert [tuple(row.values()) for row in history][-3:] == [
        ("dispatched", "in_doubt"),
        ("in_doubt", "retry_wait"),
        ("dispatched", "succeeded"),
    ]
    assert await offered(store) == []


async def test_what_may_happen_twice_is_not_even_offered(store: PostgresStore) -> None:
    sent: list[str] = []
    shop, operation = await lost(store, sent, "opaque")

    assert await offered(store) == []
    await shop.alone.run(operation)

    assert await status(shop) is EffectStatus.in_doubt
    assert sent == ["ada"]


@pytest.mark.parametrize("change", [LATER, USED_UP, ANSWERED])
async def test_what_has_no_way_out_is_offered_once_and_waits_for_an_operator(store: PostgresStore, change: str) -> None:
    sent: list[str] = []
    shop, operation = await lost(store, sent, **KEYED)
    for statement in change.split("; "):
        await shop.sql(statement)

    assert await offered(store) == [operation]
    await shop.alone.run(operation)

    assert await status(shop) is EffectStatus.in_doubt
    assert await offered(store) == []
    assert sent == ["ada"]


async def test_what_may_not_leave_any_more_stays_in_doubt(store: PostgresStore) -> None:
    sent: list[str] = []
    shop, operation = await lost(store, sent, **KEYED)
    tightened = Workshop(store, list(shop.agent.tools), "Done.", rules=(deny("*"),))

    await tightened.enrol()
    await tightened.alone.run(operation)

    assert await status(shop) is EffectStatus.in_doubt
    assert await offered(store) == []
    assert sent == ["ada"]
