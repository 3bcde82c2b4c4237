"""The floor: the same agent and tools in bare LangGraph with its own Postgres saver: one process, no ledger."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from psycopg import AsyncConnection, Connection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from signoff.workers.calls import Call
from signoff.workers.gate import judge_state
from signoff.workers.graph import ActInput, RunContext, State, Told, build_graph, first_input
from signoff.workers.messages import clean
from signoff.workers.review import apply_answer
from tests.bench.agent import BenchModel, agent, refund

SIDE_BY_SIDE = 16
OPTIONS = {"autocommit": True, "row_factory": dict_row, "options": "-c search_path=langgraph"}
FACTS = {"id": "floor", "agent": agent.name, "thread": "floor", "submitted_by": "bench", "labels": {}}


class DirectExecutor:
    """Calls the tool and nothing else."""

    async def execute(self, call: Call) -> Told:
        return Told(await refund.ainvoke(_as_call(call)))


async def floor_async(database_url: str, cycles: int) -> float:
    """Cycles per second with `AsyncPostgresSaver`, one saver per run on one pool."""
    graph = build_graph(agent, BenchModel(), 25)
    async with AsyncConnectionPool[AsyncConnection[DictRow]](
        database_url, kwargs=OPTIONS, max_size=SIDE_BY_SIDE, open=False
    ) as pool:
        left = iter(range(cycles))

        async def cycle() -> None:
            bound = graph.copy({"checkpointer": AsyncPostgresSaver(pool)})
            thread: Any = {"configurable": {"thread_id": str(uuid4())}}
            context = RunContext("floor", FACTS, "bench", DirectExecutor(), _nothing)
            start = first_input([HumanMessage("Refund 42.50 on A-1001", id=str(uuid4()))])
            paused = await bound.ainvoke(start, thread, context=context, durability="sync")
            answer = _approve(paused["__interrupt__"][0])
            await bound.ainvoke(answer, thread, context=context, durability="sync")

        async def worker() -> None:
            for _ in left:
                await cycle()

        await cycle()
        started = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(SIDE_BY_SIDE)))
        return cycles / (time.perf_counter() - started)


def floor_sync(database_url: str, cycles: int) -> float:
    """Cycles per second with `PostgresSaver`: the same graph with nodes that don't await, on threads."""
    graph = _sync_graph()
    with ConnectionPool[Connection[DictRow]](database_url, kwargs=OPTIONS, max_size=SIDE_BY_SIDE, open=True) as pool:

        def cycle(_: int) -> None:
            bound = graph.copy({"checkpointer": PostgresSaver(pool)})
            thread: Any = {"configurable": {"thread_id": str(uuid4())}}
            start = first_input([HumanMessage("Refund 42.50 on A-1001", id=str(uuid4()))])
            paused = bound.invoke(start, thread, durability="sync")
            bound.invoke(_approve(paused["__interrupt__"][0]), thread, durability="sync")

        cycle(0)
        started = time.perf_counter()
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            list(threads.map(cycle, range(cycles)))
        return cycles / (time.perf_counter() - started)


def _sync_graph() -> Any:
    model, context = BenchModel(), RunContext("floor", FACTS, "bench", DirectExecutor(), _nothing)

    def ask(state: State) -> dict[str, Any]:
        return {"messages": [clean(model.invoke(state["messages"]))], "rounds": state["rounds"] + 1}

    def gate(state: State) -> dict[str, Any]:
        return judge_state(agent, state, context)

    def review(state: State) -> dict[str, Any]:
        operations = [call["operation_id"] for call in state["calls"] if call["verdict"] == "review"]
        answer = interrupt({"kind": "review", "operations": operations, "policy_digest": agent.loaded_policy.digest})
        return apply_answer(state["messages"], state["calls"], state["refused"], answer)

    def act(state: ActInput) -> dict[str, Any]:
        message: ToolMessage = asyncio.run(refund.ainvoke(_as_call(state["call"])))
        return {"messages": [message]}

    builder = StateGraph(State)
    for name, node in (("model", ask), ("gate", gate), ("review", review)):
        builder.add_node(name, node)
    builder.add_node("act", act, input_schema=ActInput)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "gate" if state["messages"][-1].tool_calls else END)
    builder.add_edge("gate", "review")
    builder.add_conditional_edges(
        "review", lambda state: [Send("act", ActInput(call=call, beside_review=False)) for call in state["calls"]]
    )
    builder.add_edge("act", "model")
    return builder.compile()


def _approve(interrupt_: Any) -> Command[Any]:
    items = {operation: {"type": "approve"} for operation in interrupt_.value["operations"]}
    return Command(resume={interrupt_.id: {"items": items}})


def _as_call(call: Call) -> dict[str, Any]:
    return {"type": "tool_call", "id": call["tool_call_id"], "name": call["tool"], "args": call["args"]}


async def _nothing() -> None:
    return None
