"""The table of an effect's states: the guarded statements in Postgres allow exactly it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import DENIES_HAPPENING, TRANSITIONS, Effect, EffectStatus, Step, Terms
from signoff.domain.errors import LeaseLost
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from tests.support.api import open_store
from tests.support.parked import REVIEWER, parked

pytestmark = pytest.mark.anyio

# As the design has it; and what was planned again is in doubt once an earlier try turns out to have succeeded.
TABLE = {
    ("planned", "in_doubt"),
    ("planned", "dispatched"),
    ("planned", "revoked"),
    ("planned", "cancelled"),
    ("retry_wait", "dispatched"),
    ("retry_wait", "revoked"),
    ("retry_wait", "cancelled"),
    ("retry_wait", "dead"),
    ("retry_wait", "in_doubt"),
    ("dispatched", "succeeded"),
    ("dispatched", "failed"),
    ("dispatched", "retry_wait"),
    ("dispatched", "in_doubt"),
    ("in_doubt", "retry_wait"),
    ("in_doubt", "succeeded"),
    ("in_doubt", "failed"),
    ("in_doubt", "skipped"),
    ("failed", "planned"),
    ("failed", "skipped"),
    ("dead", "planned"),
    ("dead", "skipped"),
}
PAIRS = [(source, target) for source in EffectStatus for target in EffectStatus]
SET = """UPDATE signoff.effects SET status = %s, class = 'keyed', attempts = 1, fence = 7,
    first_dispatched_at = clock_timestamp(), doubt_since = CASE WHEN %s THEN clock_timestamp() END
    WHERE operation_id = %s"""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


@pytest.fixture
async def effect(store: PostgresStore) -> Effect:
    """A planned effect."""
    job = await parked(store)
    answers = parse_answers({"decisions": [{"type": "approve"}]})
    await decide_review(store, NoHints(), job.review_id, answers, REVIEWER, door="test", environment="test")
    async with store.connection() as conn:
        row = await (await conn.execute("SELECT operation_id FROM signoff.effects")).fetchone()
    assert row is not None
    async with store.begin() as tx:
        found = await tx.effects.lock(row["operation_id"])
    assert found is not None
    return found


def test_the_domain_has_the_designs_table() -> None:
    assert {(str(source), str(target)) for source, targets in TRANSITIONS.items() for target in targets} == TABLE


async def test_each_step_of_the_table_is_taken_and_no_other(store: PostgresStore, effect: Effect) -> None:
    for source, target in PAIRS:
        doubt = EffectStatus.in_doubt in (source, target)
        taken = await _try(store, effect, source, target, doubted=source is EffectStatus.in_doubt, doubt=doubt)
        legal = (source, target) in TABLE
        if legal and source is EffectStatus.in_doubt and target in DENIES_HAPPENING:
            assert not taken, (source, target)
            taken = await _try(store, effect, source, target, doubted=True, doubt=False)  # an answer clears the doubt
        assert taken == legal, (source, target)


async def test_nothing_that_is_in_doubt_can_be_denied(store: PostgresStore, effect: Effect) -> None:
    for source in EffectStatus:
        for target in DENIES_HAPPENING:
            if source not in DENIES_HAPPENING:
                assert not await _try(store, effect, source, target, doubted=True, doubt=True), (source, target)


async def test_not_even_a_statement_of_ones_own_can_deny_what_is_in_doubt(store: PostgresStore, effect: Effect) -> None:
    for target in DENIES_HAPPENING:
        with pytest.raises(psycopg.errors.CheckViolation):
            async with store.connection() as conn:
                await conn.execute(SET, (target, True, effect.operation_id))


async def test_a_step_from_where_the_effect_no_longer_is_does_nothing(store: PostgresStore, effect: Effect) -> None:
    dispatched = replace(effect, status=EffectStatus.dispatched, fence=7, attempts=1)
    async with store.connection() as conn:
        await conn.execute(SET, (EffectStatus.dispatched, False, effect.operation_id))
    step = Step(EffectStatus.succeeded, doubt=False)
    async with store.begin() as tx:
        assert not await tx.effects.move(replace(dispatched, fence=6), step, actor="an old worker")
        assert not await tx.effects.move(effect, step, actor="who thinks it is planned")
        assert await tx.effects.move(dispatched, step, actor="worker")
        assert not await tx.effects.move(dispatched, step, actor="worker")
    async with store.connection() as conn:
        rows = await (await conn.execute("SELECT from_status, to_status FROM signoff.effect_events")).fetchall()
    assert [tuple(row.values()) for row in rows] == [("dispatched", "succeeded")]


class _Undo(Exception):
    pass


async def _try(
    store: PostgresStore, effect: Effect, source: EffectStatus, target: EffectStatus, *, doubted: bool, doubt: bool
) -> bool:
    """Whether the step is taken; afterwards everything is as it was."""
    taken = False
    try:
        async with store.begin() as tx:
            await tx.conn.execute(SET, (source, doubted, effect.operation_id))
            taken = await _step(tx, replace(effect, status=source, fence=7, attempts=1), target, doubt=doubt)
            raise _Undo
    except (_Undo, psycopg.errors.CheckViolation):
        return taken


async def _step(tx: PostgresTransaction, effect: Effect, target: EffectStatus, *, doubt: bool) -> bool:
    if target is not EffectStatus.dispatched:
        return await tx.effects.move(effect, Step(target, doubt=doubt), actor="test")
    try:
        sent: Any = await tx.effects.dispatch(effect, Terms(), fence=8, worker="test")
    except LeaseLost:
        return False
    return sent.status is EffectStatus.dispatched
