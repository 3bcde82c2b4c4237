"""The agent's graph: model → gate → review → act → model.

What the policy allows does not wait for the review of its siblings: both go on side by side, and meet again in `join`,
so that the model is asked once every call of its message has a result.

The graph's routing is a convenience. What may run, the executor decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypedDict
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt

from signoff.domain.standing import StandingApproval
from signoff.infra.telemetry.tracing import span
from signoff.workers.authoring import Agent
from signoff.workers.calls import Call
from signoff.workers.gate import judge_state
from signoff.workers.injected import given
from signoff.workers.messages import calls_of, clean, open_calls, with_ids
from signoff.workers.refusals import INSTRUCTIONS
from signoff.workers.review import apply_answer


class ModelFailed(Exception):
    """The model could not be asked, or its answer could not be read: worth another try."""


@dataclass(frozen=True, slots=True)
class Told:
    """The effect's outcome, as the agent's result message."""

    message: ToolMessage


@dataclass(frozen=True, slots=True)
class Pending:
    """The effect is not settled: `pause` is the interrupt's value."""

    pause: Mapping[str, Any]


class Executes(Protocol):
    async def execute(self, call: Call) -> Told | Pending: ...


async def _none() -> Sequence[StandingApproval]:
    return ()


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the nodes of one run need of the world. `standing` brings the approvals that were given beforehand."""

    lineage_root: str
    job_facts: Mapping[str, Any]
    environment: str
    executor: Executes
    keep_model_answer: Callable[[], Awaitable[None]]
    standing: Callable[[], Awaitable[Sequence[StandingApproval]]] = _none


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    calls: list[Call]
    refused: list[str]  # digests that were rejected since the user's last message, again with each repeat of the call
    stopped: bool  # a reviewer said: stop
    rounds: int  # answers with tool calls, of this job


class ActInput(TypedDict):
    call: Call
    beside_review: bool  # a review of siblings goes on at the same time


def first_input(messages: Sequence[AnyMessage]) -> State:
    """What a new job puts into its thread's state."""
    return State(messages=list(messages), calls=[], refused=[], stopped=False, rounds=0)


def build_graph(
    agent: Agent, model: BaseChatModel, max_rounds: int, max_refused_repeats: int = 3
) -> CompiledStateGraph[State, RunContext, State, State]:
    """Compiles the agent's graph; copied for each run, with the run's own saver."""
    nodes = _Nodes(agent, model, max_rounds, max_refused_repeats)
    graph = StateGraph(State, context_schema=RunContext)
    graph.add_node("model", nodes.model)
    graph.add_node("gate", nodes.gate)
    graph.add_node("review", nodes.review)
    graph.add_node("act", nodes.act, input_schema=ActInput)
    graph.add_node("join", nodes.join)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", nodes.after_model, ["gate", END])
    graph.add_conditional_edges("gate", nodes.after_gate, ["review", "act", "model", END])
    graph.add_conditional_edges("review", nodes.after_review, ["act", "join", "model"])
    graph.add_conditional_edges("join", nodes.after_join, ["act", "model"])
    return graph.compile(name=agent.name)


class _Nodes:
    def __init__(self, agent: Agent, model: BaseChatModel, max_rounds: int, max_refused_repeats: int) -> None:
        self._agent = agent
        self._policy = agent.loaded_policy
        self._model = model.bind_tools(list(agent.tools)) if agent.tools else model
        self._system = SystemMessage("\n\n".join(part for part in (agent.instructions, INSTRUCTIONS) if part))
        self._max_rounds = max_rounds
        self._max_refused_repeats = max_refused_repeats

    async def model(self, state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
        # An answer costs money. A park, a dispatch and the end make it durable within milliseconds; where none of them
        # came, it is kept before the next call of the model, which may take long.
        if state["calls"] and all(call["verdict"] == "closed" for call in state["calls"]):
            await runtime.context.keep_model_answer()
        messages = state["messages"]
        if open_ := open_calls(messages):
            raise RuntimeError(f"calls without a result before the model is asked: {open_}")
        try:
            with span("call model"):
                answer = await self._model.ainvoke([self._system, *messages])
        except Exception as error:
            raise ModelFailed(f"{type(error).__name__}: {error}") from error
        if not isinstance(answer, AIMessage):
            raise ModelFailed(f"the model answered with a {type(answer).__name__}")
        # Ids of its own from here on: a step limit ends the run before the gate, and its calls are closed some day; and
        # a message with the id of an earlier one would replace that, and take over its operations.
        cleaned = clean(answer)
        taken = {message.id for message in messages} | {None, ""}
        cleaned = with_ids(cleaned, str(uuid4()) if cleaned.id in taken else str(cleaned.id))
        return {"messages": [cleaned], "rounds": state["rounds"] + bool(calls_of(cleaned))}

    async def after_model(self, state: State) -> str:
        message = state["messages"][-1]
        assert isinstance(message, AIMessage)
        return "gate" if calls_of(message) and state["rounds"] <= self._max_rounds else END

    async def gate(self, state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
        judged = judge_state(self._agent, state, runtime.context)
        # Standing approvals stand in for reviews alone: they are read where one would be asked for.
        if not any(call["verdict"] == "review" for call in judged["calls"]):
            return judged
        standing = await runtime.context.standing()
        return judge_state(self._agent, state, runtime.context, standing) if standing else judged

    async def after_gate(self, state: State) -> str | list[str | Send]:
        if repeated_too_often(state, self._max_refused_repeats):
            return END
        reviewed = any(call["verdict"] == "review" for call in state["calls"])
        allowed: list[str | Send] = [*self._sends(state, "allow", beside_review=reviewed)]
        return [*allowed, "review"] if reviewed else allowed or "model"

    async def review(self, state: State) -> dict[str, Any]:
        operations = [call["operation_id"] for call in state["calls"] if call["verdict"] == "review"]
        answer = interrupt({"kind": "review", "operations": operations, "policy_digest": self._policy.digest})
        return apply_answer(state["messages"], state["calls"], state["refused"], answer)

    async def after_review(self, state: State) -> str | list[Send]:
        if any(call["verdict"] == "allow" for call in state["calls"]):
            return "join"
        return await self.after_join(state)

    async def join(self, state: State) -> dict[str, Any]:
        return {}

    async def after_join(self, state: State) -> str | list[Send]:
        return self._sends(state, "approved", beside_review=False) or "model"

    async def act(self, state: ActInput, runtime: Runtime[RunContext]) -> Command[Literal["join", "model"]]:
        """Runs again from the top after each pause: the executor then serves from the ledger, or pauses anew."""
        while True:
            outcome = await runtime.context.executor.execute(state["call"])
            if isinstance(outcome, Told):
                meeting: Literal["join", "model"] = "join" if state["beside_review"] else "model"
                return Command(update={"messages": [outcome.message]}, goto=meeting)
            interrupt(dict(outcome.pause))

    def _sends(self, state: State, verdict: str, *, beside_review: bool) -> list[Send]:
        ready = [self._with_given(call, state) for call in state["calls"] if call["verdict"] == verdict]
        return [Send("act", ActInput(call=call, beside_review=beside_review)) for call in ready]

    def _with_given(self, call: Call, state: State) -> Call:
        fields = self._agent.state_fields.get(call["tool"])
        return {**call, "given": given(fields, state)} if fields else call


def repeats_of(call: Call, refused: Sequence[str]) -> int:
    """How often the call was proposed again after it had been rejected."""
    return max(0, refused.count(call["digest"]) - 1)


def repeated_too_often(state: Mapping[str, Any], most: int) -> Call | None:
    """The call of the last message that was refused, and has been proposed again so often that the job ends."""
    refused = state.get("refused", ())
    return next((call for call in state.get("calls", ()) if repeats_of(call, refused) >= most), None)
