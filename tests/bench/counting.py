"""Statements of one cycle, counted where they are sent: submit, run to the review, decide, run to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from psycopg import AsyncCursor
from psycopg.rows import DictRow

from signoff.domain.deciding import decide_review
from signoff.domain.jobs import JobStatus, SubmitJob
from signoff.domain.submitting import submit_job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.pool import CONNECTION, make_pool
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers.faults import NoFaults
from signoff.workers.heartbeat import Heartbeat
from signoff.workers.runs import Limits, Runner
from signoff.workers.serving import serve
from tests.bench.agent import NAME, agent
from tests.bench.drive import APPROVE, LEAD, SHOP


class Counted(AsyncCursor[DictRow]):
    """Counts what is executed, BEGIN and COMMIT apart."""

    statements = 0

    async def execute(self, *arguments: Any, **options: Any) -> Any:
        Counted.statements += 1
        return await super().execute(*arguments, **options)


async def statements_of_a_cycle(database_url: str) -> int:
    """For a job that nothing disturbs; the dispatcher's own statements don't count."""
    async with _store(database_url) as store:
        heartbeat = Heartbeat(database_url, timedelta(seconds=30), lambda: None)
        limits = Limits(timedelta(seconds=30), 5, "development", 5.0)
        runner = Runner(store, {NAME: serve(agent, Settings())}, heartbeat, NoHints(), limits, "bench", NoFaults())
        await _cycle(store, runner)
        before = Counted.statements
        await _cycle(store, runner)
        return Counted.statements - before


async def _cycle(store: PostgresStore, runner: Runner) -> None:
    job = (await submit_job(store, NoHints(), SubmitJob(NAME, "Refund 42.50 on A-1001"), SHOP, "http")).job
    await runner.run_hinted(job.id)
    counted = Counted.statements
    async with store.begin() as tx:
        (review,) = await tx.reviews.of_job(job.id)
    Counted.statements = counted
    await decide_review(store, NoHints(), review.id, APPROVE, LEAD, door="http", environment="development")
    await runner.run_hinted(job.id)
    counted = Counted.statements
    async with store.begin() as tx:
        ended = await tx.jobs.get(job.id)
    Counted.statements = counted
    assert ended is not None
    assert ended.status is JobStatus.succeeded


@asynccontextmanager
async def _store(database_url: str) -> AsyncIterator[PostgresStore]:
    pool = make_pool(database_url, 4)
    pool.kwargs = {**CONNECTION, "cursor_factory": Counted}
    await pool.open()
    try:
        yield PostgresStore(pool)
    finally:
        await pool.close()
