"""Arguments that the model never sees: what rules and reviewers see of them, and what the tool is given."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime

from signoff.domain import Policy, Rule, allow, review
from signoff.domain.effects import EffectClass, Terms
from signoff.domain.errors import AgentInvalid, PolicyInvalid
from signoff.workers import Agent, effect
from signoff.workers.calls import Call
from signoff.workers.carrying import carry_out
from signoff.workers.current import CurrentEffect
from signoff.workers.graph import Pending, RunContext, Told, build_graph, first_input
from signoff.workers.injected import DEEPEST, MOST_CHARACTERS, as_shown
from signoff.workers.results import SERDE
from tests.support.models import calling, scripted

pytestmark = pytest.mark.anyio

WITH_UNSEEN = review("send", reviewers=["leads"], show=["unseen.said", "destination"], when="size(unseen.said) > 0")


@effect("opaque", destination="to.address")
@tool
def send(
    to: dict[str, str],
    said: Annotated[list[AnyMessage], InjectedState("messages")],
    call_id: Annotated[str, InjectedToolCallId],
) -> str:
    """Sends."""
    return f"{len(said)} {said[0].text} {call_id}"


class Noting:
    """Keeps the calls that it is given."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def execute(self, call: Call) -> Told | Pending:
        self.calls.append(call)
        return Told(ToolMessage("sent", tool_call_id=call["tool_call_id"]))


async def gated(*rules: Rule, args: dict[str, Any]) -> tuple[dict[str, Any], Noting]:
    """The state behind the gate, and what the executor was given."""
    model = scripted(calling(("send", args)), "Done.")
    graph = build_graph(Agent(name="desk", tools=[send], policy=Policy(rules), model=model), model, 3)
    graph.checkpointer = InMemorySaver()
    executor = Noting()

    async def keep() -> None:
        return None

    said = first_input([AIMessage("Hello"), AIMessage("x" * 3000)])
    config: Any = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke(said, config, context=RunContext("root", {"id": "j"}, "test", executor, keep))
    return (await graph.aget_state(config)).values, executor


async def test_a_rule_may_look_at_given_state_and_at_the_destination_and_show_both() -> None:
    values, _ = await gated(WITH_UNSEEN, args={"to": {"address": "ada@example.com"}})
    (call,) = values["calls"]
    assert call["verdict"] == "review"
    assert call["shown"]["destination"] == "ada@example.com"
    assert call["shown"]["unseen.said"][0] == {"type": "ai", "text": "Hello"}
    assert len(call["shown"]["unseen.said"][1]["text"]) == MOST_CHARACTERS + 1
    assert call["unseen"] == {"said": call["shown"]["unseen.said"]}


async def test_the_tool_is_given_its_state_as_it_is_and_nothing_of_it_stays() -> None:
    values, executor = await gated(allow("send"), args={"to": {}})
    (call,) = executor.calls
    given = call["given"]
    assert [message.text for message in given["said"]][:1] == ["Hello"]
    current = CurrentEffect("op", "op.0", 1)
    answer = await carry_out(send, Terms(EffectClass.opaque), current, "c0", {"to": {}, **given})
    assert answer.result is not None
    assert SERDE.loads_typed(answer.result)["content"] == "3 Hello c0"
    assert "given" not in values["calls"][0]


def test_what_is_shown_is_cut_to_a_bearable_size() -> None:
    deep: Any = "end"
    for _ in range(DEEPEST + 5):
        deep = {"in": deep}
    shown = as_shown({"deep": deep, "long": list(range(1000)), "huge": 2**70, "any": object, "none": None, "yes": True})
    assert shown is not None
    assert "too deep" in str(shown["deep"])
    assert shown["long"] == list(range(980, 1000))
    assert (shown["huge"], shown["none"], shown["yes"]) == (str(2**70), None, True)
    assert isinstance(shown["any"], str)
    assert as_shown({}) is None


def _wants_store(x: int, store: Annotated[Any, InjectedStore()]) -> str:
    """Wants."""
    return ""


def _wants_runtime(x: int, runtime: ToolRuntime) -> str:
    """Wants."""
    return ""


def _wants_a_secret(x: int, secret: Annotated[str, InjectedToolArg]) -> str:
    """Wants."""
    return ""


@pytest.mark.parametrize("function", [_wants_store, _wants_runtime, _wants_a_secret])
def test_an_agent_does_not_load_whose_tool_wants_what_nobody_can_give(function: Any) -> None:
    wanting: BaseTool = tool(function)
    with pytest.raises(AgentInvalid, match="injected"):
        Agent(name="desk", tools=[wanting], policy=Policy([]))


def test_an_agent_does_not_load_whose_destination_is_no_argument() -> None:
    @effect("opaque", destination="too.address")
    @tool
    def post(to: str) -> str:
        """Posts."""
        return ""

    with pytest.raises(AgentInvalid, match=r"post has no argument 'too\.address'"):
        Agent(name="desk", tools=[post], policy=Policy([]))


def test_an_agent_tells_the_store_where_its_tools_effects_go() -> None:
    agent = Agent(name="desk", tools=[send], policy=Policy([]))
    assert agent.describe()["send"]["destination"] == "to.address"
    assert agent.destination_of("send", {"to": {"address": "ada"}}) == "ada"
    assert agent.destination_of("send", {"to": "ada"}) is None


def test_an_agent_does_not_load_whose_policy_lets_time_approve_more_than_reading() -> None:
    rule = review("send", reviewers=["leads"], deadline_seconds=60, at_deadline="approve")
    with pytest.raises(PolicyInvalid):
        Agent(name="desk", tools=[send], policy=Policy([rule]))
