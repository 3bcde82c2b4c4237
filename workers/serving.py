"""An agent as a worker process serves it: loaded once, its graph compiled once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph, StateGraph

from signoff.domain.errors import AgentInvalid
from signoff.infra.postgres.checkpoints import RunSaver, needs_every_checkpoint
from signoff.infra.settings import Settings
from signoff.workers.authoring import Agent
from signoff.workers.demo_model import DemoModel
from signoff.workers.graph import build_graph

Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """An agent with its compiled graph and limits."""

    agent: Agent
    graph: Graph
    keeps_every_checkpoint: bool
    max_rounds: int
    max_refused_repeats: int
    wall_clock_seconds: float

    def graph_for(self, saver: RunSaver) -> Graph:
        """The graph with this run's saver: a shallow copy, since compiling takes milliseconds."""
        mine = copy.copy(self.graph)
        mine.checkpointer = saver
        return mine

    def first_input(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a new job puts into the graph. An author's own knows of nothing but messages."""
        return state if self.agent.build is None else {"messages": state["messages"]}


def serve_agents(settings: Settings) -> Mapping[str, Served]:
    """Loads what `SIGNOFF_AGENTS` names.

    Raises:
        AgentInvalid, PolicyInvalid: with what is wrong and where.
    """
    served = [serve(load_agent(spec), settings) for spec in settings.agents.split(",") if spec.strip()]
    if not served:
        raise AgentInvalid("SIGNOFF_AGENTS names no agent; it wants package.module:agent, comma separated")
    names = [one.agent.name for one in served]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise AgentInvalid(f"SIGNOFF_AGENTS names two agents that are both called {twice!r}")
    return dict(zip(names, served, strict=True))


def load_agent(spec: str) -> Agent:
    """Raises AgentInvalid unless `spec` (`package.module:name`) names an Agent."""
    module_name, _, name = spec.strip().partition(":")
    try:
        found = getattr(import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise AgentInvalid(f"SIGNOFF_AGENTS: {spec.strip()!r} can't be loaded: {error}") from error
    if not isinstance(found, Agent):
        raise AgentInvalid(f"SIGNOFF_AGENTS: {spec.strip()!r} is a {type(found).__name__}, not a signoff Agent")
    return found


def serve(agent: Agent, settings: Settings) -> Served:
    rounds = agent.max_tool_rounds or settings.max_tool_rounds
    repeats = agent.max_refused_repeats or settings.max_refused_repeats
    graph = _built(agent) if agent.build else build_graph(agent, _model(agent, settings), rounds, repeats)
    return Served(
        agent=agent,
        graph=graph,
        keeps_every_checkpoint=needs_every_checkpoint(graph),
        max_rounds=rounds,
        max_refused_repeats=repeats,
        wall_clock_seconds=agent.wall_clock_seconds or settings.wall_clock_seconds,
    )


def _built(agent: Agent) -> Graph:
    """The graph of its author, compiled without a checkpointer: each run brings its own."""
    assert agent.build is not None
    built = agent.build(None)
    graph = built.compile(name=agent.name) if isinstance(built, StateGraph) else built
    if not isinstance(graph, CompiledStateGraph):
        raise AgentInvalid(f"{agent.name}: build() gave a {type(built).__name__}, not a graph of LangGraph")
    if "messages" not in graph.channels:
        raise AgentInvalid(f"{agent.name}: the state of its graph has no 'messages', where a job's input comes in")
    return graph


def _model(agent: Agent, settings: Settings) -> BaseChatModel:
    if isinstance(agent.model, BaseChatModel):
        return agent.model
    name = agent.model or settings.model
    if name is None:
        return DemoModel()
    model: BaseChatModel = init_chat_model(name)
    return model
