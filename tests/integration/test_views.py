"""Read views with many rows: right, and quick."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.errors import EffectNotFound, JobNotFound, ReviewNotFound
from signoff.domain.jobs import JobStatus
from signoff.domain.reviews import ReviewStatus
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views import Page
from signoff.infra.postgres.views_effects import EffectFilter, list_effects, show_effect
from signoff.infra.postgres.views_events import list_events
from signoff.infra.postgres.views_jobs import JobFilter, list_jobs, show_job
from signoff.infra.postgres.views_reviews import list_reviews, show_review
from tests.support.api import open_store
from tests.support.parked import OPERATOR, PRODUCER, REVIEWER, STRANGER, parked

pytestmark = pytest.mark.anyio

MANY = 1000
PENDING = ReviewFilter([ReviewStatus.pending])

# Copies of the one parked job, with ids of their own, and as many ended jobs before them.
COPIES = """
CREATE TEMP TABLE copies AS SELECT n, gen_random_uuid() AS job, gen_random_uuid() AS review, gen_random_uuid() AS item
FROM generate_series(1, {many}) n;
INSERT INTO signoff.threads (id, agent, lineage_root, created_by)
SELECT 'thread-' || n, agent, 'thread-' || n, created_by FROM copies, (SELECT * FROM signoff.threads LIMIT 1) t;
INSERT INTO signoff.jobs (id, thread_id, agent, status, input, submitted_by, door, request_digest)
SELECT job, 'thread-' || n, 'desk', 'awaiting_review', 'x', 'shop', 'test', 'd' FROM copies;
INSERT INTO signoff.jobs (id, thread_id, agent, status, input, submitted_by, door, request_digest, ended_at, created_at)
SELECT gen_random_uuid(), 'thread-' || n, 'desk', 'succeeded', 'x', 'shop', 'test', 'd', now(), now() - interval '1 day'
FROM copies;
INSERT INTO signoff.reviews (id, job_id, thread_id, interrupt_id, checkpoint_id, status, policy_digest, reviewers)
SELECT c.review, c.job, 'thread-' || n, 'i-' || n, 'c', 'pending', 'd', '{{finance}}' FROM copies c;
INSERT INTO signoff.items (id, review_id, ordinal, status, operation_id, message_id, call_ordinal, edits, tool_call_id,
    tool, args, digest, description, rule, reason, allowed_decisions, reviewers)
SELECT item, review, 0, 'open', 'op-' || n, 'm', 0, 0, 'call', 'refund', '{{}}', 'd', '', 'r', '', '{{approve}}',
    '{{finance}}'
FROM copies;
INSERT INTO signoff.effects (operation_id, job_id, thread_id, agent, tool, args, digest, status, rule, policy_digest)
SELECT 'op-' || n, job, 'thread-' || n, 'desk', 'lookup_order', '{{}}', 'd', 'planned', 'r', 'p' FROM copies;
ANALYZE;
"""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


@pytest.fixture
async def conn(store: PostgresStore) -> AsyncIterator[AsyncConnection[DictRow]]:
    await parked(store)
    async with store.connection() as conn:
        for statement in COPIES.format(many=MANY).split(";\n"):
            await conn.execute(statement)
        yield conn


async def plan(conn: AsyncConnection[DictRow], view: Any) -> str:
    """The plans of the statements that a view sends."""
    seen: list[tuple[Any, Any]] = []
    execute = conn.execute

    async def noted(sql: Any, parameters: Any = None, **more: Any) -> Any:
        seen.append((sql, parameters))
        return await execute(sql, parameters, **more)

    conn.execute = noted  # type: ignore[method-assign, assignment]
    try:
        await view()
    finally:
        conn.execute = execute  # type: ignore[method-assign]
    lines = []
    for sql, parameters in seen:
        rows = await (await execute("EXPLAIN " + sql, parameters)).fetchall()
        lines += [row["QUERY PLAN"] for row in rows]
    return "\n".join(lines)


async def test_a_thousand_parked_jobs_are_listed_quickly(conn: AsyncConnection[DictRow]) -> None:
    for who in (OPERATOR, REVIEWER, PRODUCER):
        started = time.perf_counter()
        jobs = await list_jobs(conn, JobFilter(status=[JobStatus.awaiting_review]), who)
        reviews = await list_reviews(conn, PENDING, who)
        effects = await list_effects(conn, EffectFilter(), who)
        seconds = time.perf_counter() - started
        assert (len(jobs["jobs"]), len(reviews["reviews"]), len(effects["effects"])) == (50, 50, 50)
        assert seconds < 0.5


async def test_pages_of_jobs_and_pending_reviews_follow_an_index(conn: AsyncConnection[DictRow]) -> None:
    cursor = (await list_jobs(conn, JobFilter(), OPERATOR))["next"]
    jobs = await plan(conn, lambda: list_jobs(conn, JobFilter(), OPERATOR, Page(50, cursor)))
    assert "jobs_by_time" in jobs
    assert "Seq Scan on jobs" not in jobs
    cursor = (await list_reviews(conn, PENDING, REVIEWER))["next"]
    reviews = await plan(conn, lambda: list_reviews(conn, PENDING, REVIEWER, Page(50, cursor)))
    assert "reviews_pending" in reviews


async def test_every_row_comes_once_through_the_pages(conn: AsyncConnection[DictRow]) -> None:
    found: list[str] = []
    page = Page(150)
    while True:
        answer = await list_jobs(conn, JobFilter(), REVIEWER, page)
        found += [job["job_id"] for job in answer["jobs"]]
        if answer["next"] is None:
            break
        page = Page(150, answer["next"])
    assert len(found) == len(set(found)) == MANY + 1


async def test_who_may_not_read_sees_nothing(conn: AsyncConnection[DictRow]) -> None:
    assert (await list_jobs(conn, JobFilter(), STRANGER))["jobs"] == []
    assert (await list_reviews(conn, ReviewFilter(), STRANGER))["reviews"] == []
    assert (await list_effects(conn, EffectFilter(), STRANGER))["effects"] == []
    cursor = await conn.execute(
        "SELECT r.id, r.job_id, e.operation_id FROM signoff.reviews r JOIN signoff.effects e USING (job_id) LIMIT 1"
    )
    row = await cursor.fetchone()
    assert row is not None
    assert (await show_job(conn, row["job_id"], REVIEWER))["status"] == "awaiting_review"
    with pytest.raises(JobNotFound):
        await show_job(conn, row["job_id"], STRANGER)
    with pytest.raises(ReviewNotFound):
        await show_review(conn, row["id"], STRANGER)
    with pytest.raises(EffectNotFound):
        await show_effect(conn, row["operation_id"], STRANGER)


async def test_events_are_read_in_pages_without_gaps(store: PostgresStore) -> None:
    for _ in range(5):
        await parked(store)
    async with store.connection() as conn:
        whole = await list_events(conn, "0-0", OPERATOR, 1000)
        pieces: list[Any] = []
        after = "0-0"
        while piece := (page := await list_events(conn, after, OPERATOR, 3))["events"]:
            pieces += piece
            after = page["next"]
    assert pieces == whole["events"]
    assert len(pieces) == 10
