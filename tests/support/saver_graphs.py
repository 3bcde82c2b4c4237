"""Graphs that use a checkpointer in every way that matters to it. Their nodes depend on their state alone."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

Compiled = Any  # LangGraph's graphs and nodes are generic in more ways than can be named
Node = Any


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str
    facts: dict[str, Any]


def _say(word: str) -> Node:
    def node(state: State) -> State:
        count = len(state.get("log", []))
        return {"log": [f"{word}@{count}"], "note": f"{word} {count}", "facts": {"last": word, "count": count}}

    return node


def _ask(word: str, times: int = 1) -> Node:
    def node(state: State) -> State:
        answers = [interrupt(f"{word} {n} @{len(state.get('log', []))}") for n in range(times)]
        return {"log": [f"{word} heard {answer}" for answer in answers]}

    return node


def _chain(*nodes: tuple[str, Node], **compile_options: Any) -> Compiled:
    builder = StateGraph(State)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile(**compile_options)


def plain() -> Compiled:
    """Five steps and two pauses, one of them with two questions."""
    return _chain(
        ("a", _say("a")), ("ask", _ask("ask")), ("b", _say("b")), ("twice", _ask("twice", times=2)), ("c", _say("c"))
    )


def sends() -> Compiled:
    """Four calls side by side, two of which ask."""

    def spread(state: State) -> list[Send]:
        return [Send("work", {"log": [f"{n}"], "note": str(n)}) for n in range(4)]

    def work(state: State) -> State:
        heard = interrupt(f"work {state['note']}") if state["note"] in "13" else "nothing"
        return {"log": [f"work {state['note']} heard {heard}"]}

    builder = StateGraph(State)
    builder.add_node("plan", _say("plan"))
    builder.add_node("work", work)
    builder.add_node("join", _say("join"))
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", spread, ["work"])
    builder.add_edge("work", "join")
    return builder.compile()


def _inner(**compile_options: Any) -> Compiled:
    return _chain(("x", _say("x")), ("ask", _ask("inner")), ("y", _say("y")), **compile_options)


def subgraph_node() -> Compiled:
    """A node that is a graph, and inside it another one."""
    middle = _chain(("m", _say("m")), ("deep", _inner()), ("n", _say("n")))
    return _chain(("a", _say("a")), ("sub", middle), ("b", _say("b")))


def subgraph_call() -> Compiled:
    """A node that calls a graph twice."""
    inner = _inner()

    async def node(state: State) -> State:
        first = await inner.ainvoke({"log": ["one"]})
        second = await inner.ainvoke({"log": [*first["log"], "two"]})
        return {"log": second["log"]}

    return _chain(("a", _say("a")), ("calls", node), ("b", _say("b")))


def subgraph_with_memory() -> Compiled:
    """A graph whose state outlives its calls, with a call inside it that does not."""
    inner = _chain(("x", _say("x")), ("deep", _inner()), ("ask", _ask("memory")), checkpointer=True)
    return _chain(("a", _say("a")), ("sub", inner), ("b", _say("b")))


def parallel() -> Compiled:
    """Two nodes side by side that ask, and one that does not."""
    builder = StateGraph(State)
    for name, node in (("left", _ask("left")), ("right", _ask("right", times=2)), ("mute", _say("mute"))):
        builder.add_node(name, node)
        builder.add_edge("a", name)
        builder.add_edge(name, "end")
    builder.add_node("a", _say("a"))
    builder.add_node("end", _say("end"))
    builder.add_edge(START, "a")
    return builder.compile()


def _join(left: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*left, *(item for write in writes for item in write)]


class DeltaState(TypedDict, total=False):
    log: Annotated[list[str], DeltaChannel(_join, snapshot_frequency=3)]
    other: Annotated[list[str], DeltaChannel(_join)]
    note: str


def delta() -> Compiled:
    """A graph whose state is rebuilt from its writes."""
    builder = StateGraph(DeltaState)
    for name in ("a", "b", "c", "d"):
        builder.add_node(name, _delta_say(name))
    builder.add_node("ask", _ask("ask"), input_schema=DeltaState)
    for edge in ((START, "a"), ("a", "b"), ("b", "ask"), ("ask", "c"), ("c", "d"), ("d", END)):
        builder.add_edge(*edge)
    return builder.compile()


def _delta_say(word: str) -> Node:
    def node(state: DeltaState) -> DeltaState:
        count = len(state.get("log", []))
        return {"log": [f"{word}@{count}"], "note": word, **({"other": [word]} if word in "bd" else {})}

    return node


def hidden_delta() -> Compiled:
    """A delta graph that LangGraph can't see from outside."""
    hidden = [delta()]

    async def node(state: State) -> State:
        return {"log": (await hidden[0].ainvoke({"log": ["in"]}))["log"]}

    return _chain(("a", _say("a")), ("calls", node), ("b", _say("b")))


class ScriptedModel(BaseChatModel):
    """Proposes two calls, then one, then answers; where it stands it reads from the messages."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn = [m for m in messages[_last_human(messages) :] if isinstance(m, AIMessage)]
        calls = [["alpha", "beta"], ["gamma"], []][len(turn)]
        message = AIMessage(
            content=f"step {len(turn)} after {len(messages)}",
            id=f"ai-{len(messages)}",
            tool_calls=[{"id": f"{c}-{len(messages)}", "name": "act", "args": {"what": c}} for c in calls],
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        return self


def _last_human(messages: list[BaseMessage]) -> int:
    return max(i for i, m in enumerate(messages) if m.type == "human")


@tool
def act(what: str) -> str:
    """Acts."""
    return f"did {what}"


def reviewed_agent(mode: Any) -> Compiled:
    middleware = HumanInTheLoopMiddleware(interrupt_on={"act": True}, interrupt_mode=mode)
    return create_agent(ScriptedModel(), [act], middleware=[middleware])


def answer_to(value: Any, prefix: str = "") -> Any:
    """What a reviewer says to an interrupt's value."""
    if isinstance(value, Mapping) and value.get("type") == "tool_approval":
        return _decision(value)
    if isinstance(value, Mapping) and "action_requests" in value:
        return {"decisions": [_decision(request) for request in value["action_requests"]]}
    return f"<{prefix}{value}>"


def _decision(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "reject", "message": "no"} if request["args"]["what"] == "beta" else {"type": "approve"}


GRAPHS: Mapping[str, tuple[Callable[[], Compiled], Any]] = {
    "plain": (plain, {"log": ["in"]}),
    "sends": (sends, {"log": ["in"]}),
    "subgraph_node": (subgraph_node, {"log": ["in"]}),
    "subgraph_call": (subgraph_call, {"log": ["in"]}),
    "subgraph_with_memory": (subgraph_with_memory, {"log": ["in"]}),
    "parallel": (parallel, {"log": ["in"]}),
    "delta": (delta, {"log": ["in"]}),
    "hidden_delta": (hidden_delta, {"log": ["in"]}),
    "agent_batched": (lambda: reviewed_agent("batched"), {"messages": [("user", "go")]}),
    "agent_per_call": (lambda: reviewed_agent("per_call"), {"messages": [("user", "go")]}),
}


def shown(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, BaseMessage):
        calls = getattr(value, "tool_calls", None)
        answers = value.tool_call_id if isinstance(value, ToolMessage) else None
        return (value.type, value.content, calls, answers)
    if isinstance(value, Mapping):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shown(v) for v in value]
    return value
