"""Forks: the same request from an earlier checkpoint, with the ledger of the thread that it comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.cancelling import cancel_job
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import CheckpointNotFound, IdempotencyMismatch, ReviewPending, RightMissing
from signoff.domain.fork_points import KeptDecisions
from signoff.domain.forking import fork_job
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.operating import Finding, Settlement, resolve_effect
from signoff.domain.told import pack_text
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers.waking_forks import WakeForks
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import OPERATOR, PRODUCER
from tests.support.till import APPROVE, FINANCE, PAY, Shop, Till

pytestmark = pytest.mark.anyio

KEEP, ASK = KeptDecisions.keep, KeptDecisions.ask
REJECT = {"type": "reject", "message": "not today"}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


def shop_of(store: PostgresStore, till: Till, *more: str) -> Shop:
    return Shop(store, till, FINANCE, calling(PAY), "Done.", *more)


async def forked(shop: Shop, job: Job, decisions: KeptDecisions = ASK, **options: str) -> Job:
    done = await fork_job(shop.store, NoHints(), job.id, OPERATOR, "another try", decisions=decisions, **options)
    return await shop.job(UUID(done.outcome["job_id"]))


async def decided(shop: Shop, *decisions: dict[str, Any]) -> Job:
    job = await shop.open()
    await shop.say(job.id, *decisions)
    return await shop.run(job.id)


async def only(shop: Shop, job_id: UUID) -> Job:
    """Runs this job and no other that is due."""
    await shop.sql("UPDATE signoff.jobs SET run_at = run_at + interval '1 hour' WHERE id <> %s", job_id)
    job = await shop.run(job_id)
    await shop.sql("UPDATE signoff.jobs SET run_at = run_at - interval '1 hour' WHERE id <> %s", job_id)
    return job


@pytest.mark.parametrize("decisions", [KEEP, ASK])
async def test_what_was_done_is_served_and_nobody_is_asked_about_it(
    store: PostgresStore, decisions: KeptDecisions
) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.")
    source = await decided(shop, APPROVE)
    fork = await shop.run((await forked(shop, source, decisions)).id)
    assert (fork.status, (fork.result or {})["text"], till.paid) == (
        JobStatus.succeeded,
        "Done again.",
        [("ada", 30)],
    )
    assert fork.thread_id != source.thread_id
    assert await shop.told(fork) == "pay: 30 to ada"
    assert await shop.effects(fork.id) == []
    assert (fork.submitted_by, fork.input) == (source.submitted_by, source.input)


async def test_an_edited_call_is_served_as_it_was_edited(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.")
    edit: dict[str, Any] = {"name": "pay", "args": {"to": "ada", "amount": 3}}
    source = await decided(shop, {"type": "edit", "edited_action": edit})
    fork = await shop.run((await forked(shop, source)).id)
    assert (fork.status, till.paid) == (JobStatus.succeeded, [("ada", 3)])
    assert "pay: 3 to ada" in await shop.told(fork)


async def test_a_refusal_is_kept(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.")
    source = await decided(shop, REJECT)
    fork = await shop.run((await forked(shop, source, KEEP)).id)
    assert (fork.status, till.paid) == (JobStatus.succeeded, [])
    assert "not today" in await shop.told(fork)


async def test_or_asked_again_and_then_it_runs_as_the_forks(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.")
    source = await decided(shop, REJECT)
    fork = await shop.run((await forked(shop, source, ASK)).id)
    assert fork.status is JobStatus.awaiting_review
    asked, before = await shop.item(fork.id), await shop.item(source.id)
    assert (asked.operation_id, asked.digest) == (before.operation_id, before.digest)
    await shop.say(fork.id, APPROVE)
    fork = await shop.run(fork.id)
    (effect,) = await shop.effects(fork.id)
    assert (fork.status, till.paid, effect.status) == (JobStatus.succeeded, [("ada", 30)], EffectStatus.succeeded)


async def test_a_fork_of_a_fork_has_the_ledger_of_the_first(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.", "And again.")
    source = await decided(shop, APPROVE)
    first = await shop.run((await forked(shop, source)).id)
    second = await shop.run((await forked(shop, first)).id)
    assert (second.status, till.paid) == (JobStatus.succeeded, [("ada", 30)])
    assert await shop.told(second) == "pay: 30 to ada"


async def test_what_is_in_doubt_elsewhere_is_not_sent_from_a_fork(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.")
    source = await decided(shop, APPROVE)
    await shop.sql("UPDATE signoff.effects SET status = 'in_doubt', doubt_since = clock_timestamp(), ended_at = NULL")
    fork = await shop.run((await forked(shop, source)).id)
    assert (fork.status, fork.error_code, till.paid) == (JobStatus.awaiting_operator, "effect_held", [("ada", 30)])

    waking = WakeForks(store, NoHints())
    await waking.step()
    assert (await shop.job(fork.id)).status is JobStatus.awaiting_operator
    (effect,) = await shop.effects(source.id)
    said = Settlement(OPERATOR, "asked the bank", "ref-1")
    told = pack_text("paid, says the bank")
    await resolve_effect(store, NoHints(), effect.operation_id, Finding.applied, said, told, environment="test")
    await waking.step()
    fork = await shop.run(fork.id)
    assert (fork.status, till.paid) == (JobStatus.succeeded, [("ada", 30)])
    assert "paid, says the bank" in await shop.told(fork)


@pytest.mark.parametrize("decisions", [KEEP, ASK])
async def test_what_another_job_has_under_way_is_waited_for(store: PostgresStore, decisions: KeptDecisions) -> None:
    till = Till("opaque")
    shop = shop_of(store, till, "Done again.")
    source = await shop.open()
    await shop.say(source.id, APPROVE)  # planned, and not sent yet
    fork = await only(shop, (await forked(shop, source, decisions)).id)
    assert (fork.status, till.paid) == (JobStatus.queued, [])
    (effect,) = await shop.effects(source.id)
    assert (effect.status, effect.attempts) == (EffectStatus.planned, 0)

    source = await shop.run(source.id)
    assert (source.status, till.paid) == (JobStatus.succeeded, [("ada", 30)])
    await shop.hurry()
    fork = await shop.run(fork.id)
    assert (fork.status, till.paid) == (JobStatus.succeeded, [("ada", 30)])


async def test_what_was_cancelled_there_does_not_run_here(store: PostgresStore) -> None:
    till = Till("opaque")
    shop = shop_of(store, till)
    source = await shop.open()
    await shop.say(source.id, APPROVE)
    await cancel_job(store, NoHints(), source.id, PRODUCER)
    fork = await shop.run((await forked(shop, source)).id)
    assert (fork.status, till.paid) == (JobStatus.succeeded, [])
    assert "The job ended before this call was sent" in await shop.told(fork)


async def test_a_review_that_is_open_is_decided_first(store: PostgresStore) -> None:
    shop = shop_of(store, Till())
    source = await shop.open()
    for decisions in (KEEP, ASK):
        with pytest.raises(ReviewPending):
            await forked(shop, source, decisions)
    await cancel_job(store, NoHints(), source.id, PRODUCER)
    fork = await shop.run((await forked(shop, source, KEEP)).id)
    assert fork.status is JobStatus.awaiting_review  # nobody had decided anything


async def test_what_can_not_be_forked(store: PostgresStore) -> None:
    shop = shop_of(store, Till())
    source = await decided(shop, REJECT)
    with pytest.raises(CheckpointNotFound):
        await forked(shop, source, checkpoint_id="1f000000-0000-6000-8000-000000000000")
    with pytest.raises(CheckpointNotFound):
        await forked(shop, await shop.submit())
    with pytest.raises(RightMissing):
        await fork_job(store, NoHints(), source.id, PRODUCER, "because")


async def test_a_fork_that_is_asked_for_twice_is_made_once(store: PostgresStore) -> None:
    shop = shop_of(store, Till())
    source = await decided(shop, REJECT)
    first = await forked(shop, source, request_id="r")
    assert (await forked(shop, source, request_id="r")).id == first.id
    with pytest.raises(IdempotencyMismatch):
        await forked(shop, source, KEEP, request_id="r")
    told = await shop.sql("SELECT type, actor FROM signoff.events WHERE job_id = %s ORDER BY sequence", first.id)
    assert [(row["type"], row["actor"]) for row in told] == [
        ("signoff.job.accepted.v1", "olga"),
        ("signoff.job.forked.v1", "olga"),
    ]
