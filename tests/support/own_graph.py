"""An office whose agent is a graph of its author's own: one node, that does what a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from signoff.domain.jobs import Job
from signoff.domain.policy import Policy, Rule
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Agent, NotApplied, Refused, effect
from signoff.workers.faults import Faults
from tests.support.parked import AGENT
from tests.support.till import Shop


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Node:
    """One node, in a graph of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.entered = 0

    async def __call__(self, state: State) -> dict[str, Any]:
        self.entered += 1
        return {"messages": [AIMessage(str(await self.work()))]}

    def build(self, checkpointer: Any) -> StateGraph[Any]:
        graph = StateGraph(State)
        graph.add_node("work", self)
        graph.add_edge(START, "work")
        graph.add_edge("work", END)
        return graph


class Books:
    """What was really done."""

    def __init__(self, busy: int = 0) -> None:
        self.done: list[str] = []
        self.busy = busy

    @property
    def tools(self) -> list[BaseTool]:
        @effect("opaque")
        @tool
        def note(what: str) -> str:
            """Notes."""
            self.done.append(f"note {what}")
            return f"noted {what}"

        @effect("opaque")
        @tool
        def pay(to: str, amount: int = 1) -> str:
            """Pays."""
            if self.busy:
                self.busy -= 1
                raise NotApplied("busy")
            if to == "nobody":
                raise Refused("there is no such account")
            self.done.append(f"pay {to} {amount}")
            return f"paid {to} {amount}"

        return [note, pay]


class Office(Shop):
    def __init__(
        self, store: PostgresStore, books: Books, node: Node, rules: Sequence[Rule], faults: Faults | None = None
    ) -> None:
        agent = Agent.from_graph(name=AGENT, build=node.build, tools=books.tools, policy=Policy(rules))
        super(Shop, self).__init__(store, [], agent=agent, faults=faults)

    async def told_at_last(self, job: Job) -> Any:
        return (job.result or {}).get("text")


async def both() -> str:
    noted = await effect.run("note", {"what": "a"}, key="first")
    paid = await effect.run("pay", {"to": "ada", "amount": 3}, key="second")
    return f"{noted}, {paid}"
