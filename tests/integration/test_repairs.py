"""Repairs: threads on which LangGraph would fail for ever are asked again, with the same ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from signoff.domain.effects import EffectStatus
from signoff.domain.errors import JobNotRepairable, ReviewSuperseded
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.policy import allow, review
from signoff.domain.repairing import repair_job
from signoff.domain.reviews import ItemStatus, Review, ReviewStatus
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.verify.checks import Scope
from signoff.infra.verify.whole import verify
from signoff.workers import graph
from signoff.workers.review import apply_answer
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import OPERATOR, ended
from tests.support.till import APPROVE, FINANCE, PAY, Shop, Till

pytestmark = pytest.mark.anyio

STORE_ANSWER = """
INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, -4, '__resume__', %s, %s
FROM checkpoint_writes WHERE thread_id = %s AND channel = '__interrupt__'
"""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


@pytest.fixture(autouse=True)
def strict_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A review node that can't read everything, as those of others."""

    def strictly(messages: Any, calls: Any, refused: Any, answer: Any) -> dict[str, Any]:
        return apply_answer(messages, calls, refused, {"items": answer["items"]})

    monkeypatch.setattr(graph, "apply_answer", strictly)


async def poison(shop: Shop, job: Job) -> None:
    """Stores an answer that no node can read, as LangGraph does it where nobody stands before it."""
    kind, blob = JsonPlusSerializer().dumps_typed(["yes"])
    await shop.sql(STORE_ANSWER, kind, blob, job.thread_id)


async def fail_for_ever(shop: Shop, job: Job) -> Job:
    for _ in range(3):
        assert job.status is not JobStatus.awaiting_operator
        await shop.hurry()
        job = await shop.run(job.id)
    assert (job.status, job.error_code) == (JobStatus.awaiting_operator, "run_failed")
    return job


async def repaired(shop: Shop, job: Job) -> Job:
    await repair_job(shop.store, NoHints(), job.id, OPERATOR, "a bad answer was stored")
    return await shop.run(job.id)


async def reviews(shop: Shop, job: Job) -> list[Review]:
    async with shop.store.begin() as tx:
        return list(await tx.reviews.of_job(job.id))


async def test_an_answer_that_no_node_can_read(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    await poison(shop, job)
    await shop.say(job.id, APPROVE)
    job = await repaired(shop, await fail_for_ever(shop, job))
    assert (job.status, till.paid) == (JobStatus.awaiting_review, [])
    old, new = await reviews(shop, job)
    assert (old.status, new.status) == (ReviewStatus.decided, ReviewStatus.pending)
    assert old.interrupt_id != new.interrupt_id
    assert old.items[0].operation_id == new.items[0].operation_id
    await shop.say(job.id, APPROVE)
    job = await shop.run(job.id)
    assert (job.status, till.paid) == (JobStatus.succeeded, [("ada", 30)])
    checks = await verify(store, Scope(timedelta(hours=1), 5))
    assert [violation.message for check in checks for violation in check.violations] == []


async def test_a_new_no_takes_back_the_old_yes(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    await poison(shop, job)
    await shop.say(job.id, APPROVE)
    job = await repaired(shop, await fail_for_ever(shop, job))
    await shop.say(job.id, {"type": "reject"})
    job = await shop.run(job.id)
    (effect,) = await shop.effects(job.id)
    assert (job.status, effect.status, till.paid) == (JobStatus.succeeded, EffectStatus.revoked, [])


async def test_an_open_review_is_superseded(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    await poison(shop, job)
    job = await repaired(shop, job)
    old, new = await reviews(shop, job)
    assert (old.status, old.items[0].status) == (ReviewStatus.superseded, ItemStatus.superseded)
    with pytest.raises(ReviewSuperseded):
        await shop.answer(old.id, APPROVE)
    await shop.answer(new.id, APPROVE)
    job = await shop.run(job.id)
    assert (job.status, till.paid) == (JobStatus.succeeded, [("ada", 30)])
    told = await shop.sql("SELECT type FROM signoff.events WHERE job_id = %s AND actor = 'olga'", job.id)
    assert [row["type"] for row in told] == ["signoff.review.superseded.v1", "signoff.job.repaired.v1"]
    audited = await shop.sql("SELECT act FROM signoff.audit WHERE job_id = %s AND actor = 'olga'", job.id)
    assert {"operator.job.repair", "review.superseded"} <= {row["act"] for row in audited}


async def test_what_a_sibling_has_done_is_served(store: PostgresStore) -> None:
    till = Till("opaque")
    credit = ("credit", {"to": "bob", "amount": 1})
    shop = Shop(store, till, [review("pay", reviewers=["finance"]), allow("credit")], calling(PAY, credit), "Done.")
    job = await shop.open()
    assert till.paid == [("bob", 1)]
    await poison(shop, job)
    await shop.say(job.id, APPROVE)
    job = await repaired(shop, await fail_for_ever(shop, job))
    await shop.say(job.id, APPROVE)
    job = await shop.run(job.id)
    assert (job.status, till.paid) == (JobStatus.succeeded, [("bob", 1), ("ada", 30)])


async def test_nobody_is_asked_again_about_what_may_have_happened(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    await poison(shop, job)
    await shop.say(job.id, APPROVE)
    await shop.sql(
        "UPDATE signoff.effects"
        " SET status = 'in_doubt', doubt_since = clock_timestamp(), class = 'opaque', attempts = 1"
    )
    job = await repaired(shop, await fail_for_ever(shop, job))
    assert (job.status, job.error_code, till.paid) == (JobStatus.awaiting_operator, "effect_held", [])
    assert len(await reviews(shop, job)) == 1


async def test_a_failed_job_is_repaired_as_well(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = Shop(store, till, FINANCE)
    job = await shop.open()
    await poison(shop, job)
    await shop.sql("UPDATE signoff.jobs SET status = 'queued'")
    await ended(store, job.id, well=False)
    job = await repaired(shop, job)
    await shop.say(job.id, APPROVE)
    assert ((await shop.run(job.id)).status, till.paid) == (JobStatus.succeeded, [("ada", 30)])


async def test_what_there_is_nothing_to_repair_of(store: PostgresStore) -> None:
    shop = Shop(store, Till(), FINANCE)
    done = await shop.open()
    await shop.say(done.id, APPROVE)
    await shop.run(done.id)
    fresh = await shop.submit()
    for job_id in (fresh.id, done.id):
        with pytest.raises(JobNotRepairable):
            await repair_job(store, NoHints(), job_id, OPERATOR, "because")
