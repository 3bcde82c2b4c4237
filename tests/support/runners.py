"""A worker's runners in this process: no Celery, no heartbeat, a model that says what a test has written down."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool

from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import Effect
from signoff.domain.jobs import Job, SubmitJob
from signoff.domain.policy import Policy, Rule, allow
from signoff.domain.submitting import submit_job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.effects import COLUMNS, effect_of
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers import Agent
from signoff.workers.alone import LoneRunner
from signoff.workers.faults import Faults, NoFaults
from signoff.workers.heartbeat import Heartbeat, Held
from signoff.workers.runs import Limits, Runner
from signoff.workers.serving import serve
from tests.support.models import scripted
from tests.support.parked import AGENT, PRODUCER, REVIEWER

LEASE = timedelta(minutes=5)
ENVIRONMENT = "test"


class NoHeartbeat:
    """The leases of a test are long enough."""

    def __init__(self) -> None:
        self.held: list[Held] = []

    def add(self, held: Held) -> None:
        self.held.append(held)

    def remove(self, lease: Any) -> None:
        return None


class Workshop:
    """One worker's runners over a store that knows everybody."""

    def __init__(
        self,
        store: PostgresStore,
        tools: Sequence[BaseTool],
        *answers: AIMessage | str | Exception,
        rules: Sequence[Rule] = (allow("*"),),
        faults: Faults | None = None,
        max_tries: int = 3,
        agent: Agent | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        own = {"name": AGENT, "tools": tools, "policy": Policy(rules), "model": scripted(*answers), **options}
        self.agent = agent or Agent(**own)
        agents = {self.agent.name: serve(self.agent, Settings())}
        self.heartbeat = NoHeartbeat()
        limits = Limits(LEASE, max_tries, ENVIRONMENT, drain_seconds=1.0)
        heartbeat = cast(Heartbeat, self.heartbeat)
        self.runner = Runner(store, agents, heartbeat, NoHints(), limits, "worker-1", faults or NoFaults())
        self.alone = LoneRunner(store, agents, ENVIRONMENT, "worker-1", lease=LEASE, drain_seconds=1.0)

    async def enrol(self) -> None:
        """As a worker that starts does."""
        async with self.store.begin() as tx:
            await tx.agents.register(self.agent.name, self.agent.describe(), self.agent.loaded_policy)

    async def submit(self, text: str = "Go", thread_id: str | None = None, **options: Any) -> Job:
        command = SubmitJob(self.agent.name, text, thread_id=thread_id, **options)
        return (await submit_job(self.store, NoHints(), command, PRODUCER, "test")).job

    async def run(self, job_id: UUID) -> Job:
        """Runs the job as a hint to a worker that has just started does, and whatever else is due; returns it then."""
        await self.enrol()
        await self.runner.run_hinted(job_id)
        return await self.job(job_id)

    async def decide(self, job_id: UUID, *decisions: dict[str, Any]) -> None:
        async with self.store.begin() as tx:
            review = (await tx.reviews.of_job(job_id))[-1]
        answers = parse_answers({"decisions": list(decisions)})
        await decide_review(self.store, NoHints(), review.id, answers, REVIEWER, door="test", environment=ENVIRONMENT)

    async def job(self, job_id: UUID) -> Job:
        async with self.store.begin() as tx:
            job = await tx.jobs.get(job_id)
        assert job is not None
        return job

    async def effects(self, job_id: UUID) -> list[Effect]:
        sql = f"SELECT {COLUMNS} FROM signoff.effects e WHERE job_id = %s ORDER BY created_at"
        async with self.store.connection() as conn:
            return [effect_of(row) for row in await (await conn.execute(sql, (job_id,))).fetchall()]

    async def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        async with self.store.connection() as conn:
            cursor = await conn.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []
