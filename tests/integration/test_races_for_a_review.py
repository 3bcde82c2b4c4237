"""A decision against whatever else happens to its review at once: every order gives one outcome."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.authority import CallFacts, Principal, is_reviewer, still_holds
from signoff.domain.deciding import expire_review
from signoff.domain.errors import SignoffError
from signoff.domain.reassigning import reassign
from signoff.domain.review_acts import cancel_review, claim
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.parked import OPERATOR, REVIEWER, SECOND_REVIEWER, Parked, parked
from tests.support.reviewing import change, decide, look, rows

pytestmark = pytest.mark.anyio

SEEDS = 24
SOON = "UPDATE signoff.items SET deadline_at = clock_timestamp() + make_interval(secs => %s) WHERE review_id = %s"

Act = Callable[[], Awaitable[Any]]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=4) as services:
        yield services.store


async def race(seed: int, *acts: Act) -> tuple[str | None, ...]:
    """Lets all go at one barrier, in any order and a moment apart; of each the name of its refusal, or None."""
    chance, barrier = random.Random(seed), asyncio.Event()
    delays = [chance.choice([0, 0, 0.001, 0.003]) for _ in acts]

    async def run(place: int) -> str | None:
        await barrier.wait()
        await asyncio.sleep(delays[place])
        try:
            await acts[place]()
        except SignoffError as error:
            return type(error).__name__
        return None

    order = chance.sample(range(len(acts)), len(acts))
    tasks = {place: asyncio.create_task(run(place)) for place in order}
    await asyncio.sleep(0)
    barrier.set()
    return tuple([await tasks[place] for place in range(len(acts))])


async def outcome(store: PostgresStore, job: Parked) -> tuple[str, str, int]:
    """The review, its job, and how many effects may run."""
    review, after = await look(store, job.review_id)
    planned = await rows(store, "SELECT 1 FROM signoff.effects WHERE job_id = %s AND status = 'planned'", job.job_id)
    decisions = [item.decision for item in review.items if item.decision is not None]
    assert len(decisions) == (review.status == "decided")
    return str(review.status), str(after.status), len(planned)


DECIDED = ("decided", "queued", 1)
WAITING = ("pending", "awaiting_review", 0)


async def play(store: PostgresStore, against: Callable[[UUID], Act]) -> set[tuple[tuple[str | None, ...], Any]]:
    """Rita approves while somebody does `against`: each answer of the two, with the outcome."""
    seen = set()
    for seed in range(SEEDS):
        job = await parked(store)
        answers = await race(seed, lambda: decide(store, job.review_id), against(job.review_id))  # noqa: B023
        seen.add((answers, await outcome(store, job)))
    return seen


async def test_against_a_claim(store: PostgresStore) -> None:
    seen = await play(store, lambda id_: lambda: claim(store, id_, SECOND_REVIEWER, environment="test"))
    assert seen <= {((None, "AlreadyDecided"), DECIDED), (("ReviewClaimed", None), WAITING)}


async def test_against_a_reassignment(store: PostgresStore) -> None:
    seen = await play(store, lambda id_: lambda: reassign(store, id_, OPERATOR, ["@ravi"], environment="test"))
    assert seen <= {((None, "AlreadyDecided"), DECIDED), (("NotAReviewer", None), WAITING)}


async def test_against_cancelling(store: PostgresStore) -> None:
    def cancelling(review_id: UUID) -> Act:
        return lambda: cancel_review(store, NoHints(), review_id, OPERATOR, "no need", environment="test")

    seen = await play(store, cancelling)
    assert seen <= {((None, "AlreadyDecided"), DECIDED), (("ReviewCancelled", None), ("cancelled", "queued", 0))}


async def test_against_the_deadline(store: PostgresStore) -> None:
    for seed in range(SEEDS):
        job = await parked(store)
        await change(store, SOON, random.Random(seed).uniform(0.001, 0.01), job.review_id)

        async def expire(review_id: UUID = job.review_id) -> None:
            while (await look(store, review_id))[0].status == "pending":
                await expire_review(store, NoHints(), review_id)

        (answer, _) = await race(seed, lambda: decide(store, job.review_id), expire)  # noqa: B023
        assert (answer, await outcome(store, job)) in [(None, DECIDED), ("ReviewExpired", ("expired", "queued", 0))]
        (item,) = (await look(store, job.review_id))[0].items
        assert item.decision is None or item.decision.decided_at < item.deadline_at  # type: ignore[operator]


async def test_against_losing_ones_authority(store: PostgresStore) -> None:
    for seed in range(SEEDS):
        name = f"person-{seed}"
        async with store.begin() as tx:
            await tx.principals.create(replace(REVIEWER, name=name))
        job = await parked(store)
        answers = await race(seed, lambda: _decide_as(store, name, job.review_id), lambda: _revoke(store, name))  # noqa: B023
        found = await outcome(store, job)
        assert (answers, found) in [((None, None), DECIDED), (("NotAReviewer", None), WAITING)]
        (item,) = (await look(store, job.review_id))[0].items
        call = CallFacts(item.tool, item.args, {"submitted_by": "shop"}, "test")
        assert item.decision is None or not still_holds(
            item.decision.authority,
            await _person(store, name),
            item.may_decide,
            call,
            item.decision.decided_at,  # type: ignore[arg-type]
        )


async def test_claims_of_two_people_at_once(store: PostgresStore) -> None:
    for seed in range(SEEDS):
        job = await parked(store)
        people = (REVIEWER, SECOND_REVIEWER)
        acts = [lambda who=who: claim(store, job.review_id, who, environment="test") for who in people]  # noqa: B023
        answers = await race(seed, *acts)
        (review, _) = await look(store, job.review_id)
        assert Counter(answers) == {None: 1, "ReviewClaimed": 1}
        assert review.claimed_by == people[answers.index(None)].name


async def _person(store: PostgresStore, name: str) -> Principal | None:
    async with store.begin() as tx:
        return await tx.principals.get(name)


async def _decide_as(store: PostgresStore, name: str, review_id: UUID) -> None:
    """As a door does it: by who the person is when the request comes."""
    who = await _person(store, name)
    assert who is not None
    assert is_reviewer(who) is not who.revoked
    await decide(store, review_id, who=who)


async def _revoke(store: PostgresStore, name: str) -> None:
    async with store.begin() as tx:
        await tx.principals.revoke(name)
