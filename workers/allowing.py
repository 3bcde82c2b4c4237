"""What is asked before anything leaves: brings together policy, ledger and people, as they are in this transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signoff.domain.authority import CallFacts
from signoff.domain.effects import Effect
from signoff.domain.jobs import Job
from signoff.infra.postgres.effects_examined import Examined
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers.approving import (
    Answer,
    Case,
    Fine,
    ReviewAgain,
    Revoked,
    by_decisions,
    time_allows,
    without_decision,
)
from signoff.workers.authoring import Agent
from signoff.workers.declaring import terms_of

NO_TOOL = Revoked("the agent no longer has this tool")


@dataclass(frozen=True, slots=True)
class Allowing:
    """Judges the calls of one job."""

    agent: Agent
    job: Job
    environment: str

    async def answer(self, tx: PostgresTransaction, examined: Examined, unseen: Mapping[str, Any] | None) -> Answer:
        """Whether an effect of the ledger may leave now."""
        case = self.case(examined.effect, unseen, examined.now)
        if case is None:
            return NO_TOOL
        if examined.approval is not None:
            answer = by_decisions(case, examined.approval)
            settled = isinstance(answer, Revoked) or not examined.stands
            return answer if settled else await self._unless_refused(tx, case, answer)
        answer = await self.without_decision(tx, case)
        if isinstance(answer, ReviewAgain):
            before = await tx.effects.newest_item(case.operation_id)
            return Fine(case.judgement) if before is not None and time_allows(case, before) else answer
        return answer

    async def _unless_refused(self, tx: PostgresTransaction, case: Case, answer: Answer) -> Answer:
        """A standing refusal holds like a rule, also for what people have approved."""
        refused = await self.without_decision(tx, case)
        return refused if isinstance(refused, Revoked) else answer

    async def without_decision(self, tx: PostgresTransaction, case: Case) -> Answer:
        """Standing approvals are read only where the policy wants a review: they change nothing else."""
        if not case.needs_review:
            return without_decision(case, ())
        job = self.job
        standing = await tx.standing.applicable(job.agent, case.facts.tool, job.id, job.thread_id)
        return without_decision(case, standing)

    def case(self, effect: Effect, unseen: Mapping[str, Any] | None, now: datetime) -> Case | None:
        """The call of an effect as it stands now; None if the agent does not have the tool."""
        tool = self.agent.tools_by_name.get(effect.tool)
        if tool is None:
            return None
        destination = self.agent.destination_of(effect.tool, effect.args)
        facts = CallFacts(effect.tool, effect.args, self.job.facts(), self.environment, destination, unseen)
        judgement = self.agent.judge(facts)
        return Case(effect.operation_id, effect.digest, facts, judgement, terms_of(tool).effect_class, now)
