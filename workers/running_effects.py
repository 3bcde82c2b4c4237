"""`await effect.run(…)`: an effect from any node of an author's own graph, by the same policy, people and ledger.

A node runs again from its top after each pause. So nothing here depends on what an interrupt returns, nor on how many
there were before: each time the store is asked what became of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from signoff.domain.canonical import has_storable_integers
from signoff.domain.errors import DigestMismatch, InvalidRequest
from signoff.domain.jobs import Job
from signoff.domain.reviews import Item, ItemStatus
from signoff.domain.schemas import first_problem
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import refusals
from signoff.workers.authoring import Agent
from signoff.workers.calls import Call
from signoff.workers.gate import call_of_node
from signoff.workers.graph import Pending, RunContext, Told
from signoff.workers.outcomes import Refused, Rejected, Unknown
from signoff.workers.resuming import outcome_of

MAX_KEY_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class EffectsOfRun:
    """The run whose nodes call `effect.run`."""

    store: PostgresStore
    agent: Agent
    job: Job
    context: RunContext
    waiting: set[str] = field(default_factory=set)
    """Operations whose pause has been raised, and that have not gone on."""

    async def run(self, name: str, args: Mapping[str, Any], key: str) -> Any:
        """See `effect.run`."""
        asked = self._asked(name, args, key)
        while True:
            call = await self._as_decided(asked)
            if isinstance(call, str):
                return call
            outcome = await self._execute(asked, call)
            if isinstance(outcome, Told):
                return await self._returned(call, outcome.message)
            self.waiting.add(asked["operation_id"])
            # What it returns may be the answer to an earlier pause of the node: the store is asked, again.
            interrupt(self._pause(dict(outcome.pause), asked, call))
            self.waiting.discard(asked["operation_id"])

    async def _execute(self, asked: Call, call: Call) -> Told | Pending:
        if call is asked and asked["verdict"] == "review" and await self._is_asked_anew(asked["operation_id"]):
            return Pending(
                {"kind": "review", "operations": [call["operation_id"]], "policy_digest": call["policy_digest"]}
            )
        return await self.context.executor.execute(call)

    async def _is_asked_anew(self, operation: str) -> bool:
        """True where people were asked before, and that does not count any more: in a fork, and after a repair."""
        async with self.store.each_alone() as tx:
            reviews = await tx.reviews.of_job(self.job.id)
            items = [item for review in reviews for item in review.items if item.asked_operation_id == operation]
            if items:
                return items[-1].status is ItemStatus.superseded
            forked = self.context.lineage_root != self.job.thread_id
            return forked and await tx.effects.job_of(operation) is None

    def _asked(self, name: str, args: Mapping[str, Any], key: str) -> Call:
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise InvalidRequest(f"the key of an effect is text of 1 to {MAX_KEY_CHARACTERS} characters")
        if name not in self.agent.tools_by_name:
            raise InvalidRequest(refusals.unknown_tool(name, sorted(self.agent.tools_by_name)))
        if problem := first_problem(dict(args), self.agent.schemas[name]):
            raise InvalidRequest(refusals.misfit(name, problem))
        if not has_storable_integers(dict(args)):
            raise InvalidRequest(refusals.misfit(name, "an integer is beyond 64 bits"))
        return call_of_node(self.agent, self.context, name, args, f"key:{key}")

    async def _as_decided(self, asked: Call) -> Call | str:
        """The call as people have decided it, or the words that one of them gave in place of its result.

        Raises: Rejected. DigestMismatch: the key stands for another call.
        """
        item = await self._newest_item(asked["operation_id"])
        if item is None or item.status in (ItemStatus.open, ItemStatus.superseded):
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
            # The key is the thread's: an earlier job of it may have used it, or of one that it was forked from.
            before = () if items else await tx.forks.carried_over(self.job, [operation])
        return next(iter((*reversed(items), *before)), None)

    async def _returned(self, call: Call, message: ToolMessage) -> Any:
        if message.status != "error":
            return message.content
        async with self.store.each_alone() as tx:
            effect = await tx.effects.lock(call["operation_id"])
        if effect is not None and effect.doubt_since is not None:
            raise Unknown(str(message.text))
        raise Refused(str(message.text))

    def _pause(self, pause: dict[str, Any], asked: Call, call: Call) -> dict[str, Any]:
        """A review says all that a reviewer needs: the state of an author's graph holds nothing of it."""
        if pause["kind"] != "review":
            return pause
        first = call is asked and asked["verdict"] == "review"
        again = {} if first else {"again": pause.get("again") or {}}
        return {**{key: value for key, value in pause.items() if key != "again"}, **again, "calls": [dict(call)]}
