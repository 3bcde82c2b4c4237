"""The dispatcher: a plain loop on Postgres that finds whatever is due and nobody works on.

Any number may run: rows are claimed with SKIP LOCKED. It must not depend on the broker that it recovers from, so it is
no beat task; all that it needs of Redis is to be told of, and to publish when Redis is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from signoff.domain import running
from signoff.domain.deciding import expire_review
from signoff.domain.effects import Effect, EffectClass, EffectStatus, after_lapse
from signoff.domain.errors import Conflict, SignoffError
from signoff.domain.jobs import ENDED, Job
from signoff.infra.hints import CeleryHints
from signoff.infra.postgres import leases
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.infra.postgres.tallies import LEASES_LAPSED, count
from signoff.infra.settings import Settings
from signoff.workers.climbing import ClimbLadders
from signoff.workers.evidence import settle_by_evidence
from signoff.workers.stepping import take_step

log = logging.getLogger(__name__)

BATCH = 200
ACTOR = "dispatcher"
LONGEST_PAUSE_SECONDS = 10.0
# Senders try again for about 75 hours, and what comes by stream may be judged an hour late: twice that, and more.
DELIVERIES_KEPT = timedelta(days=8)


class Activity(Protocol):
    """One kind of work of the dispatcher."""

    async def step(self) -> bool:
        """Does some; True if there may be more to do at once."""


async def run_activities(activities: Sequence[Activity], interval_seconds: float, stopping: asyncio.Event) -> None:
    """Runs each activity in a loop of its own until `stopping`; one that fails is tried again, later and later."""
    async with asyncio.TaskGroup() as group:
        for activity in activities:
            group.create_task(_repeat(activity, interval_seconds, stopping))


async def _repeat(activity: Activity, interval_seconds: float, stopping: asyncio.Event) -> None:
    pause = interval_seconds
    while not stopping.is_set():
        try:
            pause = 0.0 if await activity.step() else interval_seconds
        except Exception as error:
            pause = min(LONGEST_PAUSE_SECONDS, max(pause, interval_seconds) * 2)
            expected = isinstance(error, SignoffError | OSError)
            log.warning(
                "activity failed, will be tried again",
                extra={"activity": type(activity).__name__, "error": str(error), "pause_seconds": pause},
                exc_info=None if expected else error,
            )
        try:
            await asyncio.wait_for(stopping.wait(), timeout=pause or 0.001)
        except TimeoutError:
            continue


class Seldom:
    """An activity that looks once in a while: what it looks for is in no hurry, and looking costs something."""

    def __init__(self, activity: Activity, seconds: float) -> None:
        self._activity = activity
        self._seconds = seconds
        self._next = 0.0

    async def step(self) -> bool:
        if time.monotonic() < self._next:
            return False
        more = await self._activity.step()
        if not more:
            self._next = time.monotonic() + self._seconds
        return more


class OfferDueJobs:
    """Tells workers of due jobs: again with backoff, and at once where a queue is empty though jobs are due."""

    def __init__(self, store: PostgresStore, hints: CeleryHints, settings: Settings) -> None:
        self._store = store
        self._hints = hints
        self._backoff = timedelta(seconds=settings.offer_backoff_seconds)
        self._soon = timedelta(seconds=min(settings.offer_backoff_seconds, 2 * settings.dispatch_interval_seconds))

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            agents = await leases.agents_with_due_jobs(conn)
        offered = [await self._offer(agent) for agent in agents]
        return any(count == BATCH for count in offered)

    async def _offer(self, agent: str) -> int:
        empty = await asyncio.to_thread(self._hints.queue_is_empty, agent)
        async with self._store.connection() as conn:
            due = await leases.take_due(conn, agent, backoff=self._soon if empty else self._backoff, limit=BATCH)
        for job_id in due:
            self._hints.offer(agent, job_id)
        return len(due)


class OfferLoneEffects:
    """Tells workers of effects that run by themselves."""

    def __init__(self, store: PostgresStore, hints: CeleryHints, settings: Settings) -> None:
        self._store = store
        self._hints = hints
        self._backoff = timedelta(seconds=settings.offer_backoff_seconds)

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            due = await tx.effects.take_due_alone(self._backoff, BATCH)
        for agent, operation_id in due:
            self._hints.offer_effect(agent, operation_id)
        return len(due) == BATCH


class TakeBackLapsed:
    """Gives jobs back whose worker is gone; past the cap of tries they wait for an operator."""

    def __init__(self, store: PostgresStore, hints: CeleryHints, settings: Settings) -> None:
        self._store = store
        self._hints = hints
        self._max_tries = settings.max_tries

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            ids = await leases.lapsed(conn, BATCH)
        for job_id in ids:
            async with self._store.begin() as tx:
                job = await leases.lock_lapsed(tx.conn, job_id)
                if job is not None:
                    await self._take_back(tx, job)
                    await count(tx.conn, LEASES_LAPSED, job.agent)
            if job is not None:
                self._hints.offer(job.agent, job.id)
        return len(ids) == BATCH

    async def _take_back(self, tx: PostgresTransaction, job: Job) -> None:
        log.warning("lease lapsed", extra={"job_id": str(job.id), "fence": job.fence, "tries": job.tries})
        if job.cancel_requested:
            await running.cancel(tx, job)
        elif job.tries >= self._max_tries:
            await running.hold(tx, job, "tries_exhausted", f"its worker was lost {job.tries} times without a park")
        else:
            await running.release(tx, job, run_in=timedelta(), error=("lease_lapsed", "its worker was lost"))


class HoldExhausted:
    """Queued jobs that may not be claimed any more wait for an operator, with the reason."""

    def __init__(self, store: PostgresStore, settings: Settings) -> None:
        self._store = store
        self._max_tries = settings.max_tries

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            ids = await leases.out_of_tries(conn, self._max_tries, BATCH)
        for job_id in ids:
            async with self._store.begin() as tx:
                job = await tx.jobs.lock(job_id)
                if job is not None and job.status == "queued" and job.tries >= self._max_tries:
                    reason = f"{job.tries} tries: {job.error_message or 'none of them ended'}"
                    await running.hold(tx, job, "tries_exhausted", reason)
        return len(ids) == BATCH


class DoubtLapsedEffects:
    """Effects that a lost worker left dispatched are in doubt, also where their job has ended."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            found = await tx.effects.lapsed(BATCH)
        for effect in found:
            async with self._store.begin() as tx:
                job = await tx.jobs.lock(effect.job_id)
                now = await tx.effects.lock(effect.operation_id)
                same = now is not None and (now.status, now.fence) == (effect.status, effect.fence)
                running_again = job is not None and job.status == "running" and job.fence == effect.fence
                if same and now is not None and not running_again:
                    await self._doubt(tx, now, job)
        return len(found) == BATCH

    async def _doubt(self, tx: PostgresTransaction, effect: Effect, job: Job | None) -> None:
        effect_class = await tx.effects.class_of(effect.operation_id)
        for step in after_lapse(effect_class):
            effect = await take_step(tx, effect, step, ACTOR)
        effect = await settle_by_evidence(tx, effect, ACTOR)
        if effect.status is EffectStatus.retry_wait and _is_over(job):
            await tx.effects.cancel_unsent(effect.job_id, ACTOR)
        if effect.status is EffectStatus.in_doubt and effect_class is EffectClass.queryable and _is_over(job):
            # No run will come by and ask.
            await tx.doubt.ask_provider(effect.operation_id)


def _is_over(job: Job | None) -> bool:
    return job is None or job.status in ENDED


class FireDeadlines:
    """Expires the items of reviews whose deadline has passed."""

    def __init__(self, store: PostgresStore, hints: CeleryHints) -> None:
        self._store = store
        self._hints = hints

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            ids = await tx.reviews.past_deadline(BATCH)
        for review_id in ids:
            await expire_review(self._store, self._hints, review_id)
        return len(ids) == BATCH


class PromoteWaiting:
    """Starts the next job of threads that have none started: a safety net, since ending a job does it too."""

    def __init__(self, store: PostgresStore, hints: CeleryHints) -> None:
        self._store = store
        self._hints = hints

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            threads = await leases.stranded_threads(conn, BATCH)
        for thread_id in threads:
            # Another dispatcher, or a new job, was first.
            with suppress(Conflict):
                async with self._store.begin() as tx:
                    await tx.jobs.promote_waiting(thread_id)
        return len(threads) == BATCH


class ForgetOldDeliveries:
    """Deletes the ids of signed deliveries that nobody can send again any more."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            return await tx.deliveries.forget(kept=DELIVERIES_KEPT, limit=BATCH) == BATCH


def recovery(store: PostgresStore, hints: CeleryHints, settings: Settings) -> list[Activity]:
    """Everything that keeps jobs and effects moving."""
    return [
        OfferDueJobs(store, hints, settings),
        OfferLoneEffects(store, hints, settings),
        TakeBackLapsed(store, hints, settings),
        HoldExhausted(store, settings),
        DoubtLapsedEffects(store),
        FireDeadlines(store, hints),
        ClimbLadders(store),
        PromoteWaiting(store, hints),
    ]
