"""A support desk at work: real workers in processes of their own, a dispatcher, and the outside services that judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from pydantic import SecretStr

from examples.support_desk.agent import agent as support_desk
from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.cancelling import cancel_job
from signoff.domain.deciding import Decided, decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.jobs import ENDED, Job, JobStatus, SubmitJob
from signoff.domain.operating import Finding, Settlement, replay_effect, resolve_effect, retry_job, skip_effect
from signoff.domain.operator_acts import Done
from signoff.domain.reviews import Review, ReviewStatus
from signoff.domain.submitting import submit_job
from signoff.domain.told import pack_text
from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import CeleryHints
from signoff.infra.postgres.effects import COLUMNS, effect_of
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers.dispatching import run_dispatcher
from tests.support.desk_agents import OTHERS
from tests.support.eventually import eventually
from tests.support.worker_process import Strike, WorkerProcess, warm_up

AGENT = "support-desk"
SHOP = Principal("shop", PrincipalKind.service, frozenset(), frozenset({Right.submit}))
RITA = Principal("rita", PrincipalKind.person, frozenset({"support-leads"}), frozenset({Right.review}))
RAVI = Principal("ravi", PrincipalKind.person, frozenset({"support-leads"}), frozenset({Right.review}))
OLGA = Principal("olga", PrincipalKind.person, frozenset(), frozenset({Right.operate}))

REFUND = "Refund 42.50 on order A-1001 because the parcel came a week late."
MAIL = "Email ada@example.com that the parcel is on its way."
REFUND_AND_MAIL = (
    "Refund 42.50 on order A-1001 because the parcel came a week late, and write to ada@example.com that the money is"
    " on its way."
)
APPROVE = {"type": "approve"}

LEASE_SECONDS = 1.5
ENVIRONMENT = {
    "SIGNOFF_AGENTS": "examples.support_desk.agent:agent",
    "SIGNOFF_LEASE_SECONDS": str(LEASE_SECONDS),
    "SIGNOFF_WORKER_CONCURRENCY": "8",
    "SIGNOFF_DRAIN_SECONDS": "2",
    "SIGNOFF_MAX_TRIES": "4",
}


@dataclass
class Desk:
    """Everything around the workers; start as many as the test needs."""

    addresses: Addresses
    store: PostgresStore
    hints: CeleryHints
    payments: Payments
    mailbox: Mailbox
    folder: Path
    environment: dict[str, str]
    workers: list[WorkerProcess] = field(default_factory=list)

    def start_worker(self, strike: Strike | None = None, **settings: str) -> WorkerProcess:
        worker = WorkerProcess({**self.environment, **settings}, strike)
        self.workers.append(worker)
        return worker

    async def submit(self, text: str, thread_id: str | None = None, *, agent: str = AGENT, **options: Any) -> UUID:
        command = SubmitJob(agent, text, thread_id=thread_id, **options)
        return (await submit_job(self.store, self.hints, command, SHOP, "http")).job.id

    async def decide(self, review_id: UUID, *decisions: Mapping[str, Any], who: Principal = RITA) -> Decided:
        answers = parse_answers({"decisions": list(decisions)})
        return await decide_review(
            self.store, self.hints, review_id, answers, who, door="http", environment="development"
        )

    async def cancel(self, job_id: UUID) -> Job:
        return await cancel_job(self.store, self.hints, job_id, SHOP)

    async def resolve(self, effect: Effect, finding: Finding) -> Done:
        reference = "looked it up" if finding is Finding.applied else None
        settlement = Settlement(OLGA, "asked the provider", reference)
        result = pack_text("An operator says that it was done.") if finding is Finding.applied else None
        place = (self.store, self.hints, effect.operation_id)
        return await resolve_effect(*place, finding, settlement, result, environment="development")

    async def skip(self, effect: Effect, text: str) -> Done:
        settlement = Settlement(OLGA, "done by hand")
        place = (self.store, self.hints, effect.operation_id)
        return await skip_effect(*place, settlement, pack_text(text), environment="development")

    async def replay(self, effect: Effect) -> Done:
        settlement = Settlement(OLGA, "the cause is mended")
        return await replay_effect(self.store, self.hints, effect.operation_id, settlement)

    async def retry(self, job_id: UUID) -> Job:
        return await retry_job(self.store, self.hints, job_id, OLGA, "mended")

    async def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """What only a test does: looks into the tables, or bends them."""
        async with self.store.connection() as conn:
            cursor = await conn.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def job(self, job_id: UUID) -> Job:
        async with self.store.begin() as tx:
            job = await tx.jobs.get(job_id)
        assert job is not None
        return job

    async def reviews(self, job_id: UUID) -> list[Review]:
        async with self.store.begin() as tx:
            return list(await tx.reviews.of_job(job_id))

    async def effects(self, job_id: UUID) -> dict[str, Effect]:
        """The job's effects by tool."""
        async with self.store.connection() as conn:
            cursor = await conn.execute(f"SELECT {COLUMNS} FROM signoff.effects e WHERE job_id = %s", (job_id,))
            effects = [effect_of(row) for row in await cursor.fetchall()]
        return {effect.tool: effect for effect in effects}

    async def effect(self, job_id: UUID, tool: str, *statuses: EffectStatus, within_seconds: float = 20.0) -> Effect:
        """The job's effect of this tool, once it has one of the states (any if none is named)."""

        async def reached() -> Effect | None:
            effect = (await self.effects(job_id)).get(tool)
            return effect if effect is not None and (not statuses or effect.status in statuses) else None

        return await eventually(reached, within_seconds=within_seconds, message=lambda: self.story())

    async def messages(self, job_id: UUID) -> list[AnyMessage]:
        """The history of the job's thread, as the next run will find it."""
        (thread,) = await self.sql(
            "SELECT id, head_checkpoint_id FROM signoff.threads WHERE id = %s", (await self.job(job_id)).thread_id
        )
        place = {"thread_id": thread["id"], "checkpoint_ns": "", "checkpoint_id": thread["head_checkpoint_id"]}
        async with self.store.connection() as conn:
            found = await AsyncPostgresSaver(conn).aget_tuple({"configurable": place})
        assert found is not None
        messages: list[AnyMessage] = found.checkpoint["channel_values"]["messages"]
        return messages

    async def results(self, job_id: UUID) -> dict[str, ToolMessage]:
        """The results in the history of the job's thread, the last of each tool."""
        return {str(m.name): m for m in await self.messages(job_id) if isinstance(m, ToolMessage)}

    async def until(self, job_id: UUID, *statuses: JobStatus, within_seconds: float = 20.0) -> Job:
        """The job once it has one of the states (any end if none is named)."""
        wanted: Iterable[JobStatus] = statuses or ENDED

        async def reached() -> Job | None:
            job = await self.job(job_id)
            return job if job.status in wanted else None

        return await eventually(reached, within_seconds=within_seconds, message=lambda: self.story())

    async def pending_review(self, job_id: UUID, within_seconds: float = 20.0) -> Review:
        async def found() -> Review | None:
            reviews = await self.reviews(job_id)
            return next((review for review in reviews if review.status is ReviewStatus.pending), None)

        return await eventually(found, within_seconds=within_seconds, message=lambda: self.story())

    def story(self) -> str:
        """What the workers logged, for a test that fails."""
        return "\n".join(path.read_text(errors="replace")[-6000:] for path in sorted(self.folder.glob("worker*.log")))

    def refunds(self) -> list[dict[str, Any]]:
        """What the payments service says that it did."""
        return self.payments.applied()


def answer_of(job: Job) -> str:
    """What a job that ended well has answered."""
    assert job.status is JobStatus.succeeded, (job.status, job.error_code, job.error_message)
    assert job.result is not None
    return str(job.result["text"])


@asynccontextmanager
async def open_desk(
    database_url: str, redis_url: str, folder: Path, payments: Payments, mailbox: Mailbox
) -> AsyncIterator[Desk]:
    """A desk without workers yet; at the end nothing of it is left."""
    await asyncio.to_thread(warm_up)
    addresses = Addresses(database_url, redis_url)
    settings = Settings(
        database_url=SecretStr(database_url),
        redis_url=SecretStr(redis_url),
        lease_seconds=LEASE_SECONDS,
        max_tries=int(ENVIRONMENT["SIGNOFF_MAX_TRIES"]),
        dispatch_interval_seconds=0.05,
        offer_backoff_seconds=1.0,
    )
    hints = CeleryHints(redis_url, 2.0)
    stopping = asyncio.Event()
    environment = {
        **ENVIRONMENT,
        "SIGNOFF_DATABASE_URL": database_url,
        "SIGNOFF_REDIS_URL": redis_url,
        "SUPPORT_DESK_PAYMENTS_URL": payments.url,
        "SUPPORT_DESK_SMTP_HOST": mailbox.host,
        "SUPPORT_DESK_SMTP_PORT": str(mailbox.port),
        "WORKER_LOG": str(folder / "worker.log"),
    }
    async with open_services(settings, addresses, hints=hints) as services:
        desk = Desk(addresses, services.store, hints, payments, mailbox, folder, environment)
        await _enroll(services.store)
        dispatcher = asyncio.create_task(run_dispatcher(settings, addresses, stopping))
        try:
            yield desk
        finally:
            for worker in desk.workers:
                worker.kill()
            stopping.set()
            await dispatcher
            await asyncio.to_thread(hints.close)


async def _enroll(store: PostgresStore) -> None:
    # Agents that some worker serves; a worker registers its own when it starts.
    async with store.begin() as tx:
        for principal in (SHOP, RITA, RAVI, OLGA):
            await tx.principals.create(principal)
        for agent in (support_desk, *OTHERS):
            await tx.agents.register(agent.name, agent.describe(), agent.loaded_policy)
