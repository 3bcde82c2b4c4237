"""Two who reach for what the database allows once: one has it, the other is told, or looks again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast
from uuid import uuid4

import pytest

from signoff.domain.errors import Conflict
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import retry_job
from signoff.infra.hints import CeleryHints, NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers.dispatcher import PromoteWaiting
from tests.support.api import open_store, until
from tests.support.parked import OPERATOR, ended, submitted

pytestmark = pytest.mark.anyio

BLOCKED = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def test_a_retry_that_meets_a_new_job_of_its_thread_waits_behind_it(store: PostgresStore) -> None:
    failed = await submitted(store)
    await ended(store, failed.id, well=False)
    async with store.begin() as tx:
        row = "SELECT id, %s, thread_id, agent, 'queued', input, submitted_by, door, request_digest FROM signoff.jobs"
        names = "(id, thread_id, agent, status, input, submitted_by, door, request_digest)"
        await tx.conn.execute(f"INSERT INTO signoff.jobs {names} {row.replace('id, %s, ', '%s, ', 1)}", (uuid4(),))
        retrying = asyncio.create_task(retry_job(store, NoHints(), failed.id, OPERATOR, "mended"))
        await _blocked(store)
    assert (await retrying).status is JobStatus.waiting


async def test_what_is_lost_to_another_is_a_conflict(store: PostgresStore) -> None:
    job = await submitted(store)
    other = await submitted(store)
    with pytest.raises(Conflict):
        async with store.begin() as tx:
            await tx.conn.execute("UPDATE signoff.jobs SET thread_id = %s WHERE id = %s", (job.thread_id, other.id))


async def test_two_dispatchers_start_the_next_job_of_a_thread_once(store: PostgresStore) -> None:
    first = await submitted(store)
    waiting = [await submitted(store, thread_id=first.thread_id) for _ in range(3)]
    async with store.connection() as conn:
        await conn.execute("UPDATE signoff.jobs SET status = 'cancelled', ended_at = now() WHERE id = %s", (first.id,))
    async with store.begin() as tx:
        assert await tx.jobs.promote_waiting(first.thread_id) == waiting[0].id
        other = asyncio.create_task(PromoteWaiting(store, cast(CeleryHints, NoHints())).step())
        await _blocked(store)
    assert await other is False

    async with store.begin() as tx:
        found = [await tx.jobs.get(job.id) for job in waiting]
    assert [job.status for job in found if job is not None] == ["queued", "waiting", "waiting"]


async def _blocked(store: PostgresStore) -> None:
    async def waits() -> bool:
        async with store.connection() as conn:
            row = await (await conn.execute(BLOCKED)).fetchone()
        return row is not None and row["n"] > 0

    await until(waits)
