"""A desk with the provider of `fault_agents` beside it, and workers whose commits pass a proxy: where faults are tried.

The dispatcher of the desk and the test itself speak to Postgres directly; workers do through the proxy.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.jobs import ENDED, JobStatus
from signoff.domain.operating import Finding
from signoff.infra.postgres.effects import COLUMNS, effect_of
from signoff.infra.verify.checks import Scope
from signoff.infra.verify.whole import verify
from tests.support.desk import APPROVE, ENVIRONMENT, Desk
from tests.support.eventually import eventually
from tests.support.fault_agents import NAME, NOTES, PROVIDER_URL, QUIET, faulted
from tests.support.judging_once import Applied, judge_ledger, judge_once, require_none
from tests.support.postgres_proxy import PostgresProxy
from tests.support.provider import Provider
from tests.support.worker_process import Strike, WorkerProcess

SEEDS = "SIGNOFF_TEST_SEEDS"
FIRST_SEED = "SIGNOFF_TEST_FIRST_SEED"
QUIET_SECONDS = 2.0
Call = tuple[str, dict[str, Any]]


def seeds_of(configured: Mapping[str, str], by_default: int) -> range:
    """Which seeds to try: so many as the test takes by default, or as SIGNOFF_TEST_SEEDS says."""
    first = int(configured.get(FIRST_SEED, 0))
    return range(first, first + int(configured.get(SEEDS, by_default)))


def again(seed: int) -> str:
    return f"seed {seed}: run it again with {FIRST_SEED}={seed} {SEEDS}=1"


def four(ref: str, *, ask: bool = True) -> list[Call]:
    """A call of each class that is sent once."""
    return [
        ("pay", {"ref": f"{ref}-pay", "amount": 5.0, "ask": ask}),
        ("book", {"ref": f"{ref}-book", "ask": ask}),
        ("mail", {"ref": f"{ref}-mail", "ask": ask}),
        ("note", {"ref": f"{ref}-note", "text": "noted", "ask": ask}),
    ]


@dataclass
class Scene:
    desk: Desk
    provider: Provider
    proxy: PostgresProxy

    def worker(self, strike: Strike | None = None, **settings: str) -> WorkerProcess:
        return self.desk.start_worker(strike, **settings)

    async def ready(self) -> None:
        """Once a worker works. One that loses its database while it starts ends, and is its orchestrator's affair."""
        await self.ended(await self.submit([("note", {"ref": f"ready-{uuid4()}", "text": "", "ask": False})]))

    async def submit(self, calls: list[Call], thread_id: str | None = None, **options: Any) -> UUID:
        return await self.desk.submit(json.dumps(calls), thread_id, agent=NAME, **options)

    async def approve(self, job_id: UUID) -> None:
        """Every item of the job's review, once it is there."""
        review = await self.desk.pending_review(job_id)
        await self.desk.decide(review.id, *([APPROVE] * len(review.items)))

    async def ended(self, job_id: UUID, within_seconds: float = 40.0) -> JobStatus:
        """How the job ended; until then an operator settles, by the provider's books, what waits for one."""

        async def over() -> JobStatus | None:
            job = await self.desk.job(job_id)
            if job.status is JobStatus.awaiting_operator:
                await self._settle(job_id)
            return job.status if job.status in ENDED else None

        return await eventually(over, within_seconds=within_seconds, message=self.desk.story)

    async def _settle(self, job_id: UUID) -> None:
        held = await self._held(job_id)
        for effect in held:
            done = self.provider.has_done(effect.operation_id)
            await self.desk.resolve(effect, Finding.not_applied if done is None else Finding.applied)
        if not held and (await self.desk.job(job_id)).status is JobStatus.awaiting_operator:
            await self.desk.retry(job_id)

    async def _held(self, job_id: UUID) -> list[Any]:
        """In doubt, and for long enough that it can be known."""
        sql = (
            f"SELECT {COLUMNS} FROM signoff.effects e WHERE job_id = %s AND status = 'in_doubt'"
            " AND last_dispatched_at < clock_timestamp() - %s"
        )
        rows = await self.desk.sql(sql, job_id, timedelta(seconds=1.2))
        return [effect_of(row) for row in rows]

    async def done(self, tool: str, ref: str) -> int:
        """How often it was really done."""
        if tool == "note":
            return len(await self.desk.sql("SELECT 1 FROM public.notes WHERE ref = %s", ref))
        return len([one for one in self.provider.applied() if one["args"]["ref"] == ref])

    async def judge(self, *, at_rest: bool = True) -> None:
        """Fails with whatever breaks a promise, in all that this scene has seen so far."""
        notes = await self.desk.sql("SELECT operation FROM public.notes")
        applied = [Applied(one["operation"], one["tool"], one["args"]) for one in self.provider.applied()]
        applied += [Applied(row["operation"], "note") for row in notes]
        async with self.desk.store.connection() as conn:
            found = await judge_ledger(conn, at_rest=at_rest) + await judge_once(conn, applied)
        checks = await verify(self.desk.store, Scope(timedelta(minutes=1), int(ENVIRONMENT["SIGNOFF_MAX_TRIES"])))
        found += [
            f"{one.invariant} {one.name}: {bad.subject} {bad.message}" for one in checks for bad in one.violations
        ]
        require_none(found, self.desk.story)


@asynccontextmanager
async def open_scene(desk: Desk, folder: Path, seed: int = 0) -> AsyncIterator[Scene]:
    """A scene around the desk. Give it no workers of its own before."""
    await desk.sql(NOTES)
    async with desk.store.begin() as tx:
        await tx.agents.register(faulted.name, faulted.describe(), faulted.loaded_policy)
    with (
        Provider(folder / "provider.jsonl", seed=seed) as provider,
        PostgresProxy(desk.addresses.database_url, seed=seed) as proxy,
    ):
        desk.environment |= {
            "SIGNOFF_AGENTS": "tests.support.fault_agents:faulted",
            "SIGNOFF_DATABASE_URL": proxy.url,
            PROVIDER_URL: provider.url,
            QUIET: str(QUIET_SECONDS),
            "SIGNOFF_MAX_TRIES": "8",
        }
        try:
            yield Scene(desk, provider, proxy)
        finally:
            for worker in desk.workers:
                worker.kill()


def pool_of(kind: str) -> dict[str, str]:
    """Settings of a worker with this pool."""
    return {"SIGNOFF_WORKER_POOL": kind, "SIGNOFF_WORKER_CONCURRENCY": "1" if kind == "prefork" else "8"}
