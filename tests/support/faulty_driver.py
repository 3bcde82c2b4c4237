"""A store that loses commits, or the word of them, under code of workers and of the dispatcher; in the test's process.

Only they are hit: a test that calls a use case itself is no process that somebody starts again. What a process does
about a fault happens here too: an activity is repeated, and a run whose worker gave up is taken back and run again.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, cast

import psycopg
import pytest
from psycopg import AsyncConnection

from signoff.domain.errors import StoreUnavailable
from signoff.infra.hints import CeleryHints, NoHints
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.infra.settings import Settings
from signoff.workers import climbing, dispatcher, sealing, sending
from signoff.workers.alone import LoneRunner
from signoff.workers.dispatcher import DoubtLapsedEffects, TakeBackLapsed
from signoff.workers.runs import Runner

MOST_TIMES = 30
ACTIVITIES = (climbing, dispatcher, sealing, sending)
WROTE = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS wrote"
LAPSE = (
    "UPDATE signoff.jobs SET lease_until = clock_timestamp() - interval '1 second'"
    " WHERE status = 'running' AND lease_owner = %s"
)

_inside: ContextVar[bool] = ContextVar("inside worker code", default=False)


class FaultyDriver:
    """`struck` counts faults by kind; `databases` are the addresses that were hit, since `begin_test`."""

    def __init__(self, rate: float, seed: int) -> None:
        self._rate = rate
        self._chance = random.Random(seed)
        self.struck: Counter[str] = Counter()
        self.databases: set[str] = set()

    def begin_test(self, name: str, seed: int) -> None:
        """From here on it depends on the test alone, not on those before it."""
        self._chance = random.Random(f"{seed} {name}")
        self.databases = set()
        self.struck.clear()

    def drawn(self) -> str | None:
        """What becomes of the next write."""
        if not _inside.get() or self._chance.random() >= self._rate:
            return None
        return self._chance.choice(["commit_lost", "reply_lost"])

    def strike(self, kind: str, store: PostgresStore) -> None:
        self.struck[kind] += 1
        self.databases.add(str(store.pool.conninfo))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(PostgresStore, "begin", _losing_begin(self, PostgresStore.begin))
        patch.setattr(PostgresStore, "each_alone", _losing_each_alone(self, PostgresStore.each_alone))
        patch.setattr(Runner, "run_hinted", _run_until_quiet(self, Runner.run_hinted))
        patch.setattr(LoneRunner, "run", _once_inside(LoneRunner.run))
        for kind in _activities():
            patch.setattr(kind, "step", _step_again(kind.step))


@contextmanager
def inside() -> Iterator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


@contextmanager
def outside() -> Iterator[None]:
    token = _inside.set(False)
    try:
        yield
    finally:
        _inside.reset(token)


def _losing_begin(driver: FaultyDriver, begin: Callable[..., Any]) -> Callable[..., Any]:
    @asynccontextmanager
    async def losing(self: PostgresStore) -> AsyncIterator[PostgresTransaction]:
        kind = None
        async with begin(self) as tx:
            yield tx
            kind = driver.drawn()
            if kind is not None and not await _wrote(tx.conn):
                kind = None
            if kind == "commit_lost":
                driver.strike(kind, self)
                raise psycopg.OperationalError("lost before the commit, by a test")
        if kind == "reply_lost":
            driver.strike(kind, self)
            raise StoreUnavailable("lost after the commit, by a test")

    return losing


def _losing_each_alone(driver: FaultyDriver, each_alone: Callable[..., Any]) -> Callable[..., Any]:
    @asynccontextmanager
    async def losing(self: PostgresStore) -> AsyncIterator[PostgresTransaction]:
        kind = driver.drawn()
        if kind == "commit_lost":
            driver.strike(kind, self)
            raise StoreUnavailable("lost before the statement, by a test")
        async with each_alone(self) as tx:
            yield tx
        if kind == "reply_lost":
            driver.strike(kind, self)
            raise StoreUnavailable("lost after the statement, by a test")

    return losing


async def _wrote(conn: AsyncConnection[Any]) -> bool:
    row = await (await conn.execute(WROTE)).fetchone()
    return row is not None and bool(row["wrote"])


def _run_until_quiet(driver: FaultyDriver, run: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    @functools.wraps(run)
    async def again(self: Runner, *args: Any, **options: Any) -> None:
        for _ in range(MOST_TIMES):
            before = driver.struck.total()
            try:
                with inside():
                    await run(self, *args, **options)
            except StoreUnavailable:
                if driver.struck.total() == before:
                    raise
            if driver.struck.total() == before:
                return
            with outside():
                await _take_back(self)

    return again


async def _take_back(runner: Runner) -> None:
    """What the dispatcher does once the lease of a worker that has given up has lapsed."""
    store = runner._store
    async with store.connection() as conn:
        await conn.execute(LAPSE, (runner._worker,))
    hints = cast(CeleryHints, NoHints())
    await TakeBackLapsed(store, hints, Settings(max_tries=MOST_TIMES)).step()
    await DoubtLapsedEffects(store).step()


def _once_inside(run: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @functools.wraps(run)
    async def once(self: Any, *args: Any, **options: Any) -> Any:
        with inside():
            return await run(self, *args, **options)

    return once


def _step_again(step: Callable[..., Awaitable[bool]]) -> Callable[..., Any]:
    @functools.wraps(step)
    async def again(self: Any) -> bool:
        for _ in range(MOST_TIMES):
            try:
                with inside():
                    return await step(self)
            except StoreUnavailable as error:
                if "by a test" not in error.message:
                    raise
        raise AssertionError("every try was lost")

    return again


def _activities() -> Iterator[Any]:
    """Every kind of work of the dispatcher that speaks to Postgres alone."""
    for module in ACTIVITIES:
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__ and "step" in vars(kind):
                yield kind
