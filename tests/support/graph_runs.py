"""The agent's graph in memory: no database, no worker, an executor that only notes what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt

from signoff.domain import Policy, Rule, allow, deny, review
from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.effects import Effect, EffectStatus
from signoff.workers import Agent
from signoff.workers.calls import Call
from signoff.workers.graph import Pending, RunContext, State, Told, build_graph, first_input
from signoff.workers.results import from_ledger, pack
from tests.support.models import ScriptedModel

ROOT = "root"


@tool
def read(key: str) -> str:
    """Reads."""
    raise NotImplementedError


@tool
def pay(amount: int, note: str = "") -> str:
    """Pays."""
    raise NotImplementedError


@tool
def drop(table: str) -> str:
    """Drops a table."""
    raise NotImplementedError


TOOLS: list[BaseTool] = [read, pay, drop]
RULES: list[Rule] = [allow("read"), review("pay", reviewers=["leads"]), deny("drop")]


class NotingExecutor:
    """Tells `ran <tool>` for each call, after the pauses that a test has asked for, by the call's first argument."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.pauses: dict[Any, list[Mapping[str, Any]]] = {}

    async def execute(self, call: Call) -> Told | Pending:
        waiting = self.pauses.get(next(iter((call["args"] or {}).values()), None), [])
        if waiting:
            return Pending({**waiting[0], "operation_id": call["operation_id"]})
        self.calls.append(call)
        return Told(_result(call))

    @property
    def ran(self) -> list[tuple[str, dict[str, Any]]]:
        return [(call["tool"], call["args"] or {}) for call in self.calls]


class GraphRun:
    """One thread of one agent."""

    def __init__(self, model: ScriptedModel, *, rules: Sequence[Rule] = RULES, max_rounds: int = 10) -> None:
        self.model = model
        self.executor = NotingExecutor()
        self.kept = 0
        agent = Agent(name="desk", tools=TOOLS, policy=Policy(rules), instructions="Be kind.", model=model)
        self.graph = build_graph(agent, model, max_rounds)
        self.graph.checkpointer = InMemorySaver()
        self.config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        self.context = RunContext(ROOT, {"id": "j"}, "test", self.executor, self._keep)

    async def say(self, text: str = "Go") -> None:
        """A new job on the thread."""
        await self.begin(first_input([HumanMessage(text)]))

    async def begin(self, state: State) -> None:
        await self._run(state)

    async def decide(self, *outcomes: Mapping[str, Any] | None) -> None:
        """Answers the pending review, by position; None leaves an item without an outcome."""
        interrupt = await self.pause()
        items = await self.items()
        pairs = zip(items, outcomes, strict=True)
        answer = {item["operation_id"]: _completed(item, outcome) for item, outcome in pairs if outcome is not None}
        await self.resume(interrupt, {"items": answer})

    async def resume(self, interrupt: Interrupt, value: Any) -> None:
        await self._run(Command(resume={interrupt.id: value}))

    async def pauses(self) -> list[Interrupt]:
        return list((await self.graph.aget_state(self.config)).interrupts)

    async def pause(self) -> Interrupt:
        (interrupt,) = await self.pauses()
        return interrupt

    async def items(self) -> list[Call]:
        value = (await self.pause()).value
        assert value["kind"] == "review"
        calls: dict[str, Call] = {call["operation_id"]: call for call in (await self.state())["calls"]}
        return [calls[operation] for operation in value["operations"]]

    async def state(self) -> dict[str, Any]:
        return dict((await self.graph.aget_state(self.config)).values)

    async def messages(self) -> list[AnyMessage]:
        messages: list[AnyMessage] = (await self.state())["messages"]
        return messages

    async def results(self) -> list[ToolMessage]:
        return [message for message in await self.messages() if isinstance(message, ToolMessage)]

    async def answers(self) -> list[AIMessage]:
        return [message for message in await self.messages() if isinstance(message, AIMessage)]

    async def _run(self, value: Any) -> None:
        await self.graph.ainvoke(value, self.config, context=self.context)

    async def _keep(self) -> None:
        self.kept += 1


def edit(**args: Any) -> dict[str, Any]:
    return {"type": "edit", "args": args}


def reject(message: str | None = None, then: str | None = None) -> dict[str, Any]:
    return {"type": "reject", "message": message, "then": then}


def respond(message: str) -> dict[str, Any]:
    return {"type": "respond", "message": message}


APPROVE = {"type": "approve"}
EXPIRED = {"type": "expired"}


def _completed(item: Call, outcome: Mapping[str, Any]) -> dict[str, Any]:
    if outcome["type"] != "edit":
        return dict(outcome)
    tool, edits = outcome.get("tool", item["tool"]), item["edits"] + 1
    operation = operation_id(ROOT, item["message_id"], item["ordinal"], edits)
    digest = call_digest(tool, outcome["args"])
    return {**outcome, "tool": tool, "edits": edits, "operation_id": operation, "digest": digest}


def _result(call: Call) -> ToolMessage:
    kind, value = pack(ToolMessage(f"ran {call['tool']}", tool_call_id=""))
    effect = Effect(
        operation_id=call["operation_id"],
        generation=0,
        job_id=UUID(int=0),
        thread_id="t",
        tool=call["tool"],
        args=call["args"] or {},
        digest=call["digest"],
        status=EffectStatus.succeeded,
        attempts=1,
        result_type=kind,
        result=value,
    )
    return from_ledger(call, effect)
