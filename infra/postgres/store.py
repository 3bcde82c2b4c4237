"""The store: transactions over the tables of `signoff`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cached_property

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg_pool import PoolTimeout, TooManyRequests

from signoff.domain.errors import Conflict, StoreUnavailable
from signoff.infra.postgres.agents import AgentTable
from signoff.infra.postgres.alarms import AlarmTable
from signoff.infra.postgres.audit_actor import name_actor
from signoff.infra.postgres.dead_letters import DeadLetterTable
from signoff.infra.postgres.deliveries import DeliveryTable
from signoff.infra.postgres.doubt import DoubtTable
from signoff.infra.postgres.effects import EffectTable
from signoff.infra.postgres.events import EventTable
from signoff.infra.postgres.forks import ForkTable
from signoff.infra.postgres.grants import GrantTable
from signoff.infra.postgres.jobs import JobTable
from signoff.infra.postgres.lone_reviews import LoneReviewTable
from signoff.infra.postgres.operator_acts import OperatorActTable
from signoff.infra.postgres.pauses import PauseTable
from signoff.infra.postgres.pool import Pool
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.providers import ProviderTable
from signoff.infra.postgres.replayables import ReplayableTable
from signoff.infra.postgres.review_acts import ReviewActTable
from signoff.infra.postgres.reviews import ReviewTable
from signoff.infra.postgres.settlements import SettlementTable
from signoff.infra.postgres.standing import StandingTable
from signoff.infra.postgres.threads import ThreadTable
from signoff.infra.postgres.workers import WorkerTable


class PostgresTransaction:
    """One open transaction. `conn` is for the saver, whose checkpoints join it."""

    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self.conn = conn

    async def now(self) -> datetime:
        """The database's clock: the only one that leases, deadlines and order are judged by."""
        row = await (await self.conn.execute("SELECT clock_timestamp() AS now")).fetchone()
        assert row is not None
        now: datetime = row["now"]
        return now

    @cached_property
    def jobs(self) -> JobTable:
        return JobTable(self.conn)

    @cached_property
    def threads(self) -> ThreadTable:
        return ThreadTable(self.conn)

    @cached_property
    def reviews(self) -> ReviewTable:
        return ReviewTable(self.conn)

    @cached_property
    def acts(self) -> ReviewActTable:
        return ReviewActTable(self.conn)

    @cached_property
    def effects(self) -> EffectTable:
        return EffectTable(self.conn)

    @cached_property
    def doubt(self) -> DoubtTable:
        return DoubtTable(self.conn)

    @cached_property
    def principals(self) -> PrincipalTable:
        return PrincipalTable(self.conn)

    @cached_property
    def grants(self) -> GrantTable:
        return GrantTable(self.conn)

    @cached_property
    def standing(self) -> StandingTable:
        return StandingTable(self.conn)

    @cached_property
    def agents(self) -> AgentTable:
        return AgentTable(self.conn)

    @cached_property
    def events(self) -> EventTable:
        return EventTable(self.conn)

    @cached_property
    def deliveries(self) -> DeliveryTable:
        return DeliveryTable(self.conn)

    @cached_property
    def dead_letters(self) -> DeadLetterTable:
        return DeadLetterTable(self.conn)

    @cached_property
    def operator_acts(self) -> OperatorActTable:
        return OperatorActTable(self.conn)

    @cached_property
    def replayables(self) -> ReplayableTable:
        return ReplayableTable(self.conn)

    @cached_property
    def lone_reviews(self) -> LoneReviewTable:
        return LoneReviewTable(self.conn)

    @cached_property
    def pauses(self) -> PauseTable:
        return PauseTable(self.conn)

    @cached_property
    def providers(self) -> ProviderTable:
        return ProviderTable(self.conn)

    @cached_property
    def workers(self) -> WorkerTable:
        return WorkerTable(self.conn)

    @cached_property
    def alarms(self) -> AlarmTable:
        return AlarmTable(self.conn)

    @cached_property
    def forks(self) -> ForkTable:
        return ForkTable(self.conn)

    @cached_property
    def settlements(self) -> SettlementTable:
        return SettlementTable(self.conn)


class PostgresStore:
    """Hands out transactions; commits when the block ends well, rolls back when it doesn't."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        async with self.connection() as conn, conn.transaction():
            yield PostgresTransaction(conn)

    @asynccontextmanager
    async def begin_as(self, actor: str) -> AsyncIterator[PostgresTransaction]:
        """The same for changes whose rows don't say who made them: the audit names `actor`."""
        async with self.begin() as tx:
            await name_actor(tx.conn, actor)
            yield tx

    @asynccontextmanager
    async def each_alone(self) -> AsyncIterator[PostgresTransaction]:
        """The same tables without a transaction around them: each statement is its own. For reads, and single moves."""
        async with self.connection() as conn:
            yield PostgresTransaction(conn)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[DictRow]]:
        """A connection in autocommit mode: for a single statement, which is its own transaction."""
        try:
            async with self.pool.connection() as conn:
                yield conn
        except (PoolTimeout, TooManyRequests) as error:
            raise StoreUnavailable("no database connection can be had right now") from error
        except psycopg.OperationalError as error:
            raise StoreUnavailable(f"the database failed: {error}") from error
        except psycopg.errors.UniqueViolation as error:
            # Two reached for what the database allows once: one has it, nothing of the other's was kept.
            raise Conflict("somebody else changed the same thing at once; look again, and try it again") from error
