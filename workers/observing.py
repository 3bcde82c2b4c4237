"""How runs and attempts are seen from outside: ids on every log line, and spans where traces are asked for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

from signoff.domain.effects import Effect
from signoff.domain.errors import SignoffError
from signoff.infra.log_context import logged_with
from signoff.infra.postgres.leases import Claim
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.telemetry.tracing import Span, Tracing, past_span, span

# Those whose answer has not been taken up yet: this run does it.
ANSWERED = """
SELECT id, status, created_at, coalesce(decided_at, deadline_at, clock_timestamp()) AS ended_at FROM signoff.reviews
WHERE job_id = %s AND status IN ('decided', 'expired') AND resumed_at IS NULL
"""

log = logging.getLogger(__name__)


@asynccontextmanager
async def observed_run(tracing: Tracing, store: PostgresStore, claim: Claim, worker: str) -> AsyncIterator[None]:
    """Around a run of a job."""
    job = claim.job
    who: dict[str, str | int] = {"job_id": str(job.id), "thread_id": job.thread_id, "agent": job.agent}
    ids = {**who, "worker": worker, "fence": job.fence}
    with logged_with(**ids), tracing.running(job.traceparent, **ids, tries=job.tries):
        if tracing.is_on and claim.has_reviews:
            await _tell_reviews(store, job.id)
        yield


@contextmanager
def observed_attempt(effect: Effect) -> Iterator[Span]:
    """Around an attempt, from its dispatch to its record; tell the span the `outcome`."""
    ids: dict[str, str | int] = {"operation_id": effect.operation_id, "attempt": effect.attempts}
    with logged_with(**ids), span("attempt effect", **ids, tool=effect.tool) as opened:
        yield opened


async def _tell_reviews(store: PostgresStore, job_id: UUID) -> None:
    """A review is in no process while it waits: its span is made by the run that goes on after it."""
    try:
        async with store.connection() as conn:
            rows = await (await conn.execute(ANSWERED, (job_id,))).fetchall()
    except SignoffError as error:
        log.warning("reviews not traced", extra={"error": error.message})
        return
    for row in rows:
        past_span("review", row["created_at"], row["ended_at"], review_id=str(row["id"]), status=row["status"])
