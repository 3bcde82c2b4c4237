"""Everything that can be done with a review, at once: whatever comes first, there is one outcome, and it holds.

Each seed is a review, an order and a choice of acts that begin at one barrier. `SIGNOFF_TEST_SEEDS` says how many
(default: 1,000), `SIGNOFF_TEST_FIRST_SEED` where to begin: a failure names its seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.authority import Principal
from signoff.domain.cancelling import cancel_job
from signoff.domain.deciding import decide_review, expire_review
from signoff.domain.decisions import parse_answers
from signoff.domain.errors import SignoffError
from signoff.domain.laddering import climb
from signoff.domain.reassigning import reassign
from signoff.domain.review_acts import cancel_review, claim
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.parked import OPERATOR, REVIEWER, SECOND_REVIEWER, Parked, parked, refund

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

SEEDS = "SIGNOFF_TEST_SEEDS"
FIRST = "SIGNOFF_TEST_FIRST_SEED"
THIRD_REVIEWER = replace(REVIEWER, name="rosa")
REVIEWERS = (REVIEWER, SECOND_REVIEWER, THIRD_REVIEWER)
APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "no"}
EDIT = {"type": "edit", "edited_action": {"name": "refund", "args": {"order": "A-1", "amount": 20}}}
ENDED = {"decided", "expired", "cancelled"}

Act = Callable[[], Awaitable[object]]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=8) as services:
        async with services.store.begin() as tx:
            await tx.principals.create(THIRD_REVIEWER)
        yield services.store


async def test_every_order_has_one_outcome(store: PostgresStore, configured: Mapping[str, str]) -> None:
    first = int(configured.get(FIRST, 0))
    for seed in range(first, first + int(configured.get(SEEDS, 1000))):
        try:
            await race(store, random.Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


async def race(store: PostgresStore, chance: random.Random) -> None:
    needed = chance.choice([1, 1, 2])
    ladder = [{"after_seconds": 30, "reviewers": ["directors"], "replace": True}]
    call = refund(terms={"approvals": needed, "ladder": ladder}, deadline_seconds=60)
    waiting = await parked(store, call)
    acts = chosen(store, waiting, chance)
    barrier = asyncio.Event()

    async def at_the_barrier(act: Act) -> object:
        await barrier.wait()
        return await act()

    tasks = [asyncio.ensure_future(at_the_barrier(act)) for act in acts]
    await asyncio.sleep(0)
    barrier.set()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        # Who comes too late is told so, by a name.
        assert not isinstance(result, BaseException) or isinstance(result, SignoffError), repr(result)
    await check(store, waiting, needed)


def chosen(store: PostgresStore, waiting: Parked, chance: random.Random) -> list[Act]:
    hints, review_id = NoHints(), waiting.review_id

    def deciding(who: Principal, raw: dict[str, Any]) -> Act:
        answers = parse_answers({"decisions": [raw]})
        return lambda: decide_review(store, hints, review_id, answers, who, door="test", environment="test")

    async def expire() -> object:
        await execute(store, "UPDATE signoff.items SET deadline_at = clock_timestamp() WHERE review_id = %s", review_id)
        return await expire_review(store, hints, review_id)

    async def escalate() -> object:
        due = "UPDATE signoff.items SET next_rung_at = clock_timestamp()"
        await execute(store, f"{due} WHERE review_id = %s AND next_rung_at IS NOT NULL", review_id)
        return await climb(store, review_id)

    decisions = [deciding(who, chance.choice([APPROVE, APPROVE, REJECT, EDIT])) for who in REVIEWERS]
    others: list[Act] = [
        expire,
        escalate,
        lambda: cancel_job(store, hints, waiting.job_id, OPERATOR, "a test"),
        lambda: cancel_review(store, hints, review_id, OPERATOR, "enough", environment="test"),
        lambda: claim(store, review_id, SECOND_REVIEWER, environment="test"),
        lambda: reassign(store, review_id, OPERATOR, ["@rosa"], reason="hers", environment="test"),
    ]
    acts = [*decisions, chance.choice(decisions), *chance.sample(others, chance.randint(0, 3))]
    chance.shuffle(acts)
    return acts


async def check(store: PostgresStore, waiting: Parked, needed: int) -> None:
    """The one outcome, read from the rows."""
    [item] = await rows(store, "SELECT * FROM signoff.items WHERE review_id = %s", waiting.review_id)
    [review] = await rows(store, "SELECT * FROM signoff.reviews WHERE id = %s", waiting.review_id)
    [job] = await rows(store, "SELECT * FROM signoff.jobs WHERE id = %s", waiting.job_id)
    decisions = await rows(store, "SELECT * FROM signoff.decisions WHERE item_id = %s", item["id"])
    effects = await rows(store, "SELECT * FROM signoff.effects WHERE job_id = %s", waiting.job_id)
    assert (item["status"] in ENDED) == (review["status"] in ENDED), (item["status"], review["status"])
    assert (item["status"] == "decided") == (item["decision_id"] is not None)
    assert len({(one["reviewer"], one["revision"]) for one in decisions}) == len(decisions)
    if item["status"] == "open":
        assert (job["status"], effects) == ("awaiting_review", [])
        return
    assert job["status"] in ("queued", "cancelled")
    winner = next((one for one in decisions if one["id"] == item["decision_id"]), None)
    if winner is None or winner["type"] not in ("approve", "edit"):
        assert effects == []
        return
    [effect] = effects
    assert (effect["operation_id"], effect["digest"]) == (winner["operation_id"], winner["digest"])
    covering = [one for one in decisions if one["digest"] == winner["digest"] and one["type"] in ("approve", "edit")]
    enough = 1 if winner["type"] == "edit" else needed
    assert len({one["reviewer"] for one in covering}) >= enough


async def rows(store: PostgresStore, sql: str, id_: UUID) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        return await (await conn.execute(sql, (id_,))).fetchall()


async def execute(store: PostgresStore, sql: str, id_: UUID) -> None:
    async with store.connection() as conn:
        await conn.execute(sql, (id_,))
