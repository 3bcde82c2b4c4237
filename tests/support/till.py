"""A shop with one tool that pays, in this process; and people who decide about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.domain.deciding import decide_review, expire_review
from signoff.domain.decisions import parse_answers
from signoff.domain.jobs import Job
from signoff.domain.policy import Rule, review
from signoff.domain.reviews import Item
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import NotApplied, effect
from tests.support.models import calling
from tests.support.parked import REVIEWER
from tests.support.runners import ENVIRONMENT, Workshop

DORA = Principal("dora", PrincipalKind.person, frozenset({"directors"}), frozenset({Right.review}))
APPROVE = {"type": "approve"}
PAY = ("pay", {"to": "ada", "amount": 30})
FINANCE = [review("*", reviewers=["finance"])]


class Till:
    """What was really paid. The first `refusals` tries come to nothing, for certain."""

    def __init__(self, effect_class: str = "idempotent", refusals: int = 0) -> None:
        self.paid: list[tuple[str, int]] = []
        self._effect_class = effect_class
        self._refusals = refusals

    @property
    def tools(self) -> list[BaseTool]:
        return [self._tool("pay"), self._tool("credit")]

    def _tool(self, name: str) -> BaseTool:
        @tool(name)
        def pay(to: str, amount: int) -> str:
            """Pays."""
            if self._refusals:
                self._refusals -= 1
                raise NotApplied("closed")
            self.paid.append((to, amount))
            return f"{name}: {amount} to {to}"

        return effect(self._effect_class, destination="to", first_delay=timedelta(hours=1))(pay)


class Shop(Workshop):
    """A worker over the till, whose model proposes PAY and then says that it is done, unless told otherwise."""

    def __init__(self, store: PostgresStore, till: Till, rules: Sequence[Rule], *answers: Any, **options: Any) -> None:
        super().__init__(store, till.tools, *(answers or (calling(PAY), "Done.")), rules=rules, **options)

    async def open(self) -> Job:
        """A job, run until it waits or ends."""
        await self.enrol()
        return await self.run((await self.submit()).id)

    async def say(self, job_id: UUID, *decisions: dict[str, Any], who: Principal = REVIEWER) -> None:
        """A decision of somebody on the newest review of the job."""
        async with self.store.begin() as tx:
            newest = (await tx.reviews.of_job(job_id))[-1]
        await self.answer(newest.id, *decisions, who=who)

    async def answer(self, review_id: UUID, *decisions: dict[str, Any], who: Principal = REVIEWER) -> None:
        """A decision of somebody on this review."""
        answers = parse_answers({"decisions": list(decisions)})
        await decide_review(self.store, NoHints(), review_id, answers, who, door="test", environment=ENVIRONMENT)

    async def item(self, job_id: UUID) -> Item:
        """The one item of the newest review of the job."""
        async with self.store.begin() as tx:
            (item,) = (await tx.reviews.of_job(job_id))[-1].items
        return item

    async def pass_deadlines(self) -> None:
        """What the dispatcher does once the deadline of every open item has passed."""
        late = await self.sql(
            "UPDATE signoff.items SET deadline_at = clock_timestamp() - interval '1 second' WHERE status = 'open'"
            " RETURNING review_id"
        )
        for row in late:
            await expire_review(self.store, NoHints(), row["review_id"])

    async def hurry(self) -> None:
        """Every retry is due."""
        await self.sql("UPDATE signoff.effects SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
        await self.sql("UPDATE signoff.jobs SET run_at = clock_timestamp() WHERE status = 'queued'")

    async def told(self, job: Job) -> str:
        """The newest result that the agent was told."""
        (row,) = await self.sql("SELECT id, head_checkpoint_id FROM signoff.threads WHERE id = %s", job.thread_id)
        place = {"thread_id": row["id"], "checkpoint_ns": "", "checkpoint_id": row["head_checkpoint_id"]}
        async with self.store.connection() as conn:
            found = await AsyncPostgresSaver(conn).aget_tuple({"configurable": place})
        assert found is not None
        messages = found.checkpoint["channel_values"]["messages"]
        return str(next(m.text for m in reversed(messages) if isinstance(m, ToolMessage)))
