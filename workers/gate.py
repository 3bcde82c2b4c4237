"""The gate: judges every call of a model message by the policy, before any pause.

The verdicts go into the state here, so that running the review node again can't change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, ToolMessage

from signoff.domain.authority import CallFacts
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.policy import DecisionType, Judgement, Verdict
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.schemas import first_problem
from signoff.domain.standing import StandingApproval, judge_standing
from signoff.workers import refusals
from signoff.workers.authoring import Agent
from signoff.workers.calls import Call
from signoff.workers.injected import as_shown, given
from signoff.workers.messages import ProposedCall, calls_of, with_ids

if TYPE_CHECKING:
    from signoff.workers.graph import RunContext

UNREADABLE_DECISIONS = [DecisionType.reject, DecisionType.respond]


def judge_state(
    agent: Agent, state: Mapping[str, Any], context: RunContext, standing: Sequence[StandingApproval] = ()
) -> dict[str, Any]:
    """The state's change: its last message with ids, its judged calls, and results for those that are settled
    already."""
    message = state["messages"][-1]
    assert isinstance(message, AIMessage)
    named = with_ids(message, message.id or str(uuid4()))
    gate = _Gate(agent, context, named.id or "", state, standing)
    judged = [gate.judge(call) for call in calls_of(named)]
    results = [result for _, result in judged if result is not None]
    changed = [named] if named is not message else []
    refused = {"refused": gate.refused} if gate.refused != state["refused"] else {}
    return {"messages": [*changed, *results], "calls": [call for call, _ in judged], **refused}


def call_of_node(agent: Agent, context: RunContext, tool: str, args: Mapping[str, Any], message_id: str) -> Call:
    """A call that a node of an author's graph makes, judged as one of a model's message would be."""
    gate = _Gate(agent, context, message_id, {"refused": (), "stopped": False}, ())
    call, _ = gate.judge(ProposedCall(0, None, tool, dict(args)))
    return call


class _Gate:
    def __init__(
        self,
        agent: Agent,
        context: RunContext,
        message_id: str,
        state: Mapping[str, Any],
        standing: Sequence[StandingApproval],
    ) -> None:
        self._agent = agent
        self._policy = agent.loaded_policy
        self._context = context
        self._message_id = message_id
        self._state = state
        self._standing = standing
        self.refused: list[str] = list(state["refused"])

    def judge(self, proposed: ProposedCall) -> tuple[Call, ToolMessage | None]:
        """The call with its verdict; a result message if it is settled here."""
        facts = self._facts(proposed)
        # A worker's clock will do: the executor judges again, by the database's.
        judgement = judge_standing(self._agent.judge(facts), self._standing, facts, datetime.now(UTC)).judgement
        call = self._call(proposed, judgement, facts.unseen)
        why_not = self._why_not(proposed, call, judgement)
        if why_not is None:
            return call, None
        call["verdict"] = "closed"
        return call, ToolMessage(why_not, tool_call_id=call["tool_call_id"], name=call["tool"], status="error")

    def _facts(self, proposed: ProposedCall) -> CallFacts:
        tool, context = proposed.tool, self._context
        unseen = as_shown(given(self._agent.state_fields.get(tool, {}), self._state))
        destination = self._agent.destination_of(tool, proposed.args)
        return CallFacts(tool, proposed.args, context.job_facts, context.environment, destination, unseen)

    def _why_not(self, proposed: ProposedCall, call: Call, judgement: Judgement) -> str | None:
        tool = proposed.tool
        if tool not in self._agent.tools_by_name:
            return refusals.unknown_tool(tool, sorted(self._agent.tools_by_name))
        if proposed.args is not None and (problem := first_problem(proposed.args, self._agent.schemas[tool])):
            return refusals.misfit(tool, problem)
        if judgement.verdict is Verdict.deny:
            return refusals.denied(tool, judgement.reason)
        if call["verdict"] == "review" and call["digest"] in self.refused:
            self.refused.append(call["digest"])
            return refusals.refused_before(tool)
        if call["verdict"] == "review" and self._state["stopped"]:
            return refusals.told_to_stop(tool)
        if call["verdict"] == "review" and not call["reviewers"]:
            return refusals.denied(tool, "it would need a review, and the policy names no reviewers for it")
        return None

    def _call(self, proposed: ProposedCall, judgement: Judgement, unseen: Mapping[str, Any] | None) -> Call:
        readable = proposed.args is not None
        # Arguments that can't be read go to a person even where a rule would let the tool pass.
        needs_review = judgement.verdict is Verdict.review or not readable
        decisions = judgement.decisions if readable else UNREADABLE_DECISIONS
        reviewers = judgement.reviewers or self._policy.fallback_reviewers
        args = dict(proposed.args) if proposed.args is not None else {"unreadable": proposed.unreadable_args}
        return Call(
            operation_id=operation_id(self._context.lineage_root, self._message_id, proposed.ordinal, 0),
            message_id=self._message_id,
            ordinal=proposed.ordinal,
            edits=0,
            tool_call_id=proposed.id or "",
            tool=proposed.tool,
            args=args if readable else None,
            unreadable_args=proposed.unreadable_args,
            digest=call_digest(proposed.tool, args),
            verdict="review" if needs_review else "allow",
            rule=judgement.rule,
            reason=judgement.reason if readable else "the arguments can't be read",
            policy_digest=judgement.policy_digest,
            decisions=[str(word) for word in decisions],
            reviewers=list(reviewers),
            deadline_seconds=judgement.deadline_seconds,
            approval_valid_for_seconds=judgement.approval_valid_for_seconds,
            description=judgement.description or f"{proposed.tool} needs a decision",
            edited=False,
            terms=ReviewTerms.of(judgement).to_dict() if needs_review else None,
            shown=(dict(judgement.shown) or None) if needs_review else None,
            unseen=None if unseen is None else dict(unseen),
        )
