"""The driver: a producer and a reviewer that never rest, and what they saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.jobs import SubmitJob
from signoff.domain.submitting import submit_job
from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.services import Services
from signoff.infra.settings import Settings
from tests.bench.agent import NAME, agent
from tests.support.eventually import eventually

SHOP = Principal("bench-shop", PrincipalKind.service, frozenset(), frozenset({Right.submit}))
LEAD = Principal("bench-lead", PrincipalKind.person, frozenset({"leads"}), frozenset({Right.review}))
APPROVE = parse_answers({"decisions": [{"type": "approve"}]})
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 180.0


@dataclass
class Driver:
    """Submits and decides through the use cases, as the API does for its callers."""

    services: Services

    async def enroll(self) -> None:
        async with self.services.store.begin() as tx:
            await tx.principals.create(SHOP)
            await tx.principals.create(LEAD)
            await tx.agents.register(agent.name, agent.describe(), agent.loaded_policy)

    async def submit(self) -> UUID:
        command = SubmitJob(NAME, "Refund 42.50 on A-1001")
        return (await submit_job(self.services.store, self.services.hints, command, SHOP, "http")).job.id

    async def decide(self, review_id: UUID) -> None:
        store, hints = self.services.store, self.services.hints
        await decide_review(store, hints, review_id, APPROVE, LEAD, door="http", environment="development")

    async def cycles(self, count: int, side_by_side: int) -> float:
        """Seconds for `count` whole cycles with `side_by_side` jobs open: between the filling and the emptying."""
        before = await self.ended()
        deciding = asyncio.create_task(self._decide_all())
        begun, submitted, total = time.perf_counter(), 0, count + 2 * side_by_side
        started = ended = 0.0
        while (done := await self.ended() - before) < total:
            self._require_patience(begun, done, total)
            started = started or (time.perf_counter() if done >= side_by_side else 0.0)
            ended = ended or (time.perf_counter() if done >= side_by_side + count else 0.0)
            room = min(side_by_side - (submitted - done), total - submitted)
            await asyncio.gather(*(self.submit() for _ in range(room)))
            submitted += room
            await asyncio.sleep(LOOK_SECONDS)
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        return ended - started

    async def one_by_one(self, count: int) -> list[float]:
        """Milliseconds from decision to dispatch, by the database's clock, when nothing else is going on."""
        return [await self._one() for _ in range(count)]

    async def park(self, count: int, side_by_side: int = 100) -> None:
        before = await self._count("awaiting_review")
        started = time.perf_counter()
        submitted = 0
        while (parked := await self._count("awaiting_review") - before) < count:
            self._require_patience(started, parked, count)
            room = min(side_by_side - (submitted - parked), count - submitted)
            await asyncio.gather(*(self.submit() for _ in range(room)))
            submitted += room
            await asyncio.sleep(LOOK_SECONDS)

    async def ended(self) -> int:
        return await self._count("succeeded")

    async def ask(self, sql: str, *parameters: object) -> Any:
        async with self.services.store.connection() as conn:
            row = await (await conn.execute(sql, parameters)).fetchone()
        assert row is not None
        return next(iter(row.values()))

    async def vacuum(self) -> None:
        async with self.services.store.connection() as conn:
            await conn.execute("SET statement_timeout = 0")
            await conn.execute("VACUUM (FULL)")

    async def _one(self) -> float:
        job_id = await self.submit()
        review_id = None
        while review_id is None:
            await asyncio.sleep(LOOK_SECONDS)
            review_id = await self.ask("SELECT (SELECT id FROM signoff.reviews WHERE job_id = %s) AS id", job_id)
        await asyncio.sleep(0.05)  # idle: nothing of the park is still going on
        await self.decide(review_id)
        sql = (
            "SELECT (SELECT extract(epoch FROM a.dispatched_at - d.decided_at) * 1000 FROM signoff.effects e"
            " JOIN signoff.attempts a USING (operation_id) JOIN signoff.decisions d ON d.id = e.decision_id"
            " JOIN signoff.jobs j ON j.id = e.job_id WHERE e.job_id = %s AND j.status = 'succeeded') AS ms"
        )
        return float(await eventually(lambda: self.ask(sql, job_id), within_seconds=PATIENCE_SECONDS))

    async def _count(self, status: str) -> int:
        return int(await self.ask("SELECT count(*) AS n FROM signoff.jobs WHERE status = %s", status))

    async def _decide_all(self) -> None:
        while True:
            async with self.services.store.connection() as conn:
                sql = "SELECT id FROM signoff.reviews WHERE status = 'pending' ORDER BY created_at LIMIT 50"
                rows = await (await conn.execute(sql)).fetchall()
            await asyncio.gather(*(self.decide(row["id"]) for row in rows))
            await asyncio.sleep(LOOK_SECONDS)

    def _require_patience(self, started: float, done: int, count: int) -> None:
        if time.perf_counter() - started > PATIENCE_SECONDS:
            raise TimeoutError(f"{done} of {count} after {PATIENCE_SECONDS:.0f} s: look at the logs in build/bench")


@asynccontextmanager
async def open_driver(addresses: Addresses) -> AsyncIterator[Driver]:
    settings = Settings(
        database_url=SecretStr(addresses.database_url), redis_url=SecretStr(addresses.redis_url), database_pool_size=8
    )
    async with open_services(settings, addresses) as services:
        driver = Driver(services)
        await driver.enroll()
        yield driver
