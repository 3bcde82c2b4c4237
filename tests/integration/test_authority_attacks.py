"""Ways round what people have decided, tried on the executor, without a graph that could have stopped anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from signoff.domain.authority import Right
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import retry_job
from signoff.domain.policy import Verdict, review
from signoff.domain.running import fail
from signoff.domain.standing_up import Stand, stand
from signoff.infra.hints import NoHints
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_effects import show_effect
from signoff.infra.postgres.views_reviews import list_reviews
from tests.integration.test_executor_guards import FREELY, MESSAGE, Bench, call_of, text_of
from tests.support import parked as world
from tests.support.api import open_store
from tests.support.parked import AGENT, OPERATOR, REVIEWER, claimed, parked
from tests.support.till import Shop, Till

pytestmark = pytest.mark.anyio

EDITED = {"order": "A-1", "amount": 20}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


@pytest.fixture
async def bench(store: PostgresStore) -> Bench:
    return Bench(store)


async def test_an_edit_in_a_review_that_was_never_complete_does_not_run_by_a_rule(bench: Bench) -> None:
    place = await parked(bench.store, world.refund(30, message_id=MESSAGE), world.refund(40, ordinal=1))
    async with bench.store.begin() as tx:
        (open_,) = await tx.reviews.of_job(place.job_id)
    action = {"type": "edit", "edited_action": {"name": "refund", "args": EDITED}, "item_id": str(open_.items[0].id)}
    answers = parse_answers({"decisions": [action]})
    await decide_review(bench.store, NoHints(), open_.id, answers, REVIEWER, door="test", environment="test")
    # Something else ends the job, the review with it; and an operator has it tried again.
    await bench.sql("UPDATE signoff.jobs SET status = 'queued' WHERE id = %s", place.job_id)
    job = await claimed(bench.store, place.job_id)
    async with bench.store.begin() as tx:
        await tx.jobs.fence(job)
        await fail(tx, job, "run_failed", "as the test wants it")
    await retry_job(bench.store, NoHints(), job.id, OPERATOR, "mended")
    job = await claimed(bench.store, job.id)
    amended = {"operation_id": operation_id(job.thread_id, MESSAGE, 0, 1), "edits": 1, "edited": True}
    call = {**call_of(job, EDITED), **amended, "digest": call_digest("refund", EDITED)}
    outcome = await (await bench.executor(job, FREELY)).execute(call)  # type: ignore[arg-type]
    assert bench.till.paid == []
    assert "There is no decision for this call" in text_of(outcome)


async def test_what_the_rule_of_an_edited_call_hides_is_hidden_though_its_editor_decided_alone(
    store: PostgresStore,
) -> None:
    rules = [
        review("pay", reviewers=["finance"], tool_changes=["credit"]),
        review("credit", reviewers=["finance"], hide=["to"]),
    ]
    till = Till()
    shop = Shop(store, till, rules)
    job = await shop.open()
    edit = {"type": "edit", "edited_action": {"name": "credit", "args": {"to": "SECRET", "amount": 20}}}
    await shop.say(job.id, edit)
    await shop.say(job.id, edit)
    async with store.connection() as conn:
        assert "SECRET" not in str(await list_reviews(conn, ReviewFilter(), REVIEWER))
    assert (await shop.run(job.id)).status is JobStatus.succeeded
    assert till.paid == [("SECRET", 20)]
    (effect,) = await shop.effects(job.id)
    async with store.connection() as conn:
        assert (await show_effect(conn, effect.operation_id, REVIEWER))["args"] == {"to": "[hidden]", "amount": 20}
    told = await shop.sql("SELECT type FROM signoff.events WHERE type LIKE 'signoff.review.%%' ORDER BY position")
    assert [row["type"] for row in told] == ["signoff.review.requested.v1", "signoff.review.decided.v1"]


async def test_a_standing_refusal_stops_a_call_that_was_approved_and_has_not_left(store: PostgresStore) -> None:
    till = Till()
    stan = replace(REVIEWER, name="stan", rights=frozenset({Right.review, Right.standing}))
    async with store.begin() as tx:
        await tx.principals.create(stan)
    for refused in ("args.amount > 30", "args.amount > 20"):
        shop = Shop(store, till, [review("pay", reviewers=["finance"])])
        job = await shop.open()
        await shop.say(job.id, {"type": "approve"})
        await stand(store, stan, Stand(agent=AGENT, tool="pay", verdict=Verdict.deny, condition=refused, job_id=job.id))
        done = await shop.run(job.id)
        assert done.status is JobStatus.succeeded
    assert till.paid == [("ada", 30)]
    assert "stan refuses it by standing approval" in await shop.told(done)
    (effect,) = await shop.effects(job.id)
    assert effect.status is EffectStatus.revoked
