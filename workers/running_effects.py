"""`await effect.run(…)`: an effect from any node of an author's own graph, by the same policy, people and ledger.

A node runs again from its top after each pause. So nothing here depends on what an interrupt returns, nor on how many
there were before: each time the store is asked what became of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from signoff.domain.errors import DigestMismatch, InvalidRequest
from signoff.domain.jobs import Job
from signoff.domain.reviews import Item, ItemStatus
from signoff.domain.schemas import first_problem
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import refusals
from signoff.workers.authoring import Agent
from signoff.workers.calls import Call
from signoff.workers.gate import call_of_node
from signoff.workers.graph import RunContext, Told
from signoff.workers.outcomes import Refused, Rejected
from signoff.workers.resuming import outcome_of

MAX_KEY_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class EffectsOfRun:
    """The run whose nodes call `effect.run`."""

    store: PostgresStore
    agent: Agent
    job: Job
    context: RunContext

    async def run(self, name: str, args: Mapping[str, Any], key: str) -> Any:
        """See `effect.run`."""
        asked = self._asked(name, args, key)
        while True:
            call = await self._as_decided(asked)
            if isinstance(call, str):
                return call
            outcome = await self.context.executor.execute(call)
            if isinstance(outcome, Told):
                return _returned(outcome.message)
            # What it returns may be the answer to an earlier pause of the node: the store is asked, again.
            interrupt(self._pause(dict(outcome.pause), asked, call))

    def _asked(self, name: str, args: Mapping[str, Any], key: str) -> Call:
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise InvalidRequest(f"the key of an effect is text of 1 to {MAX_KEY_CHARACTERS} characters")
        if name not in self.agent.tools_by_name:
            raise InvalidRequest(refusals.unknown_tool(name, sorted(self.agent.tools_by_name)))
        if problem := first_problem(dict(args), self.agent.schemas[name]):
            raise InvalidRequest(refusals.misfit(name, problem))
        return call_of_node(self.agent, self.context, name, args, f"key:{key}")

    async def _as_decided(self, asked: Call) -> Call | str:
        """The call as people have decided it, or the words that one of them gave in place of its result.

        Raises: Rejected. DigestMismatch: the key stands for another call.
        """
        item = await self._newest_item(asked["operation_id"])
        if item is None or item.status is ItemStatus.open:
            return asked
        if item.revision == 1 and item.digest != asked["digest"]:
            raise DigestMismatch("the key stands for another call", tool=asked["tool"])
        outcome = outcome_of(item)
        if outcome["type"] == "respond":
            return str(outcome["message"])
        if outcome["type"] == "edit":
            changed = {name: outcome[name] for name in ("tool", "operation_id", "digest", "edits")}
            return Call(**{**asked, **changed, "args": dict(outcome["args"])})  # type: ignore[typeddict-item]
        if outcome["type"] == "reject":
            then = outcome["then"] or "stop"
            said = refusals.rejected(asked["tool"], outcome["message"], then)
            raise Rejected(said, reason=outcome["message"], next_step=then, reviewer=outcome["reviewer"])
        return asked

    async def _newest_item(self, operation: str) -> Item | None:
        async with self.store.each_alone() as tx:
            reviews = await tx.reviews.of_job(self.job.id)
        items = [item for review in reviews for item in review.items if item.asked_operation_id == operation]
        return items[-1] if items else None

    def _pause(self, pause: dict[str, Any], asked: Call, call: Call) -> dict[str, Any]:
        """A review says all that a reviewer needs: the state of an author's graph holds nothing of it."""
        if pause["kind"] != "review":
            return pause
        first = call is asked and asked["verdict"] == "review"
        again = {} if first else {"again": pause.get("again") or {}}
        return {**{key: value for key, value in pause.items() if key != "again"}, **again, "calls": [dict(call)]}


def _returned(message: ToolMessage) -> Any:
    if message.status == "error":
        raise Refused(str(message.text))
    return message.content
