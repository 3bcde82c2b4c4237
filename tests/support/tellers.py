"""A worker whose agent pays whomever its job names, once, so that any number of jobs may run in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool

from signoff.domain.jobs import Job
from signoff.domain.policy import Policy, Rule, allow
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers import Agent
from signoff.workers.alone import LoneRunner
from signoff.workers.faults import NoFaults
from signoff.workers.heartbeat import Heartbeat
from signoff.workers.runs import Limits, Runner
from signoff.workers.serving import serve
from tests.support.models import ScriptedModel, calling
from tests.support.parked import AGENT
from tests.support.runners import ENVIRONMENT, LEASE, NoHeartbeat, Workshop


class PayingModel(ScriptedModel):
    """Calls `pay` with the job's text; once it was told the result it is done."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        last = messages[-1]
        to = next(message.text for message in reversed(messages) if isinstance(message, HumanMessage))
        answer = AIMessage("Done.") if isinstance(last, ToolMessage) else calling(("pay", {"to": to}))
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Tellers(Workshop):
    """Two runners would be two workers: they share nothing but the store."""

    def __init__(self, store: PostgresStore, pay: BaseTool, *, rules: Sequence[Rule] = (allow("*"),)) -> None:
        self.store = store
        self.agent = Agent(name=AGENT, tools=[pay], policy=Policy(rules), model=PayingModel())
        agents = {AGENT: serve(self.agent, Settings())}
        limits = Limits(LEASE, 3, ENVIRONMENT, drain_seconds=1.0)
        self.runner = Runner(store, agents, cast(Heartbeat, NoHeartbeat()), NoHints(), limits, "worker-1", NoFaults())
        self.alone = LoneRunner(store, agents, ENVIRONMENT, "worker-1", lease=LEASE, drain_seconds=1.0)

    async def open(self, to: str = "ada") -> Job:
        """A job, run until it waits or ends."""
        await self.enrol()
        return await self.run((await self.submit(to)).id)

    async def again(self, job: Job) -> Job:
        """Once every wait is over."""
        await self.sql("UPDATE signoff.effects SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
        await self.sql("UPDATE signoff.jobs SET run_at = clock_timestamp() WHERE status = 'queued'")
        return await self.run(job.id)

    async def waits(self, job_id: UUID) -> str | None:
        """What the effect of the job waits for."""
        (row,) = await self.sql("SELECT waits_for FROM signoff.effects WHERE job_id = %s", job_id)
        waits_for: str | None = row["waits_for"]
        return waits_for
