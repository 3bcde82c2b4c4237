"""The table of a job's states: the guarded statements in Postgres allow exactly it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from signoff.domain.errors import Conflict
from signoff.domain.jobs import ENDED, STARTED, TRANSITIONS, JobStatus
from signoff.infra.postgres.leases import claim
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import open_store
from tests.support.parked import submitted

pytestmark = pytest.mark.anyio

# As the design has it.
TABLE = {
    ("waiting", "queued"),
    ("waiting", "cancelled"),
    ("queued", "running"),
    ("queued", "awaiting_operator"),
    ("queued", "cancelled"),
    ("running", "queued"),
    ("running", "awaiting_review"),
    ("running", "awaiting_operator"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("awaiting_review", "queued"),
    ("awaiting_review", "cancelled"),
    ("awaiting_operator", "queued"),
    ("awaiting_operator", "cancelled"),
    ("failed", "queued"),
    ("failed", "waiting"),
}
SET = """UPDATE signoff.jobs SET status = %s, claimed_at = clock_timestamp(), fence = 1,
    lease_until = CASE WHEN %s THEN clock_timestamp() + interval '1 hour' END,
    ended_at = CASE WHEN %s THEN clock_timestamp() END WHERE id = %s"""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


def test_the_domain_has_the_designs_table() -> None:
    assert {(str(source), str(target)) for source, targets in TRANSITIONS.items() for target in targets} == TABLE


async def test_each_step_of_the_table_is_taken_and_no_other(store: PostgresStore) -> None:
    job = await submitted(store)
    for source in JobStatus:
        for target in JobStatus:
            await _put(store, job.id, source)
            assert await _step(store, job.id, target) == ((source, target) in TABLE), (source, target)


@pytest.mark.parametrize("status", sorted(set(JobStatus) - {JobStatus.running}))
async def test_a_job_that_is_not_running_has_no_lease(store: PostgresStore, status: JobStatus) -> None:
    job = await submitted(store)
    with pytest.raises(psycopg.errors.CheckViolation):
        async with store.connection() as conn:
            await conn.execute(SET, (status, True, status in ENDED, job.id))


async def test_two_started_jobs_on_one_thread_can_not_be(store: PostgresStore) -> None:
    first = await submitted(store)
    second = await submitted(store, thread_id=first.thread_id)
    assert second.status is JobStatus.waiting
    for status in STARTED:
        with pytest.raises(Conflict):
            await _put(store, second.id, status)


async def _put(store: PostgresStore, job_id: UUID, status: JobStatus) -> None:
    async with store.connection() as conn:
        await conn.execute(SET, (status, status is JobStatus.running, status in ENDED, job_id))


async def _step(store: PostgresStore, job_id: UUID, target: JobStatus) -> bool:
    if target is JobStatus.running:
        async with store.connection() as conn:
            lease = timedelta(minutes=1)
            return await claim(conn, worker="w", lease=lease, max_tries=100, job_id=job_id) is not None
    async with store.begin() as tx:
        moved: bool = await tx.jobs.move(job_id, target)
    return moved
