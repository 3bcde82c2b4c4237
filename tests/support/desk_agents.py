"""Other agents that a desk's workers may serve: each has one trait that a test needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool

from examples.support_desk.agent import agent as support_desk
from examples.support_desk.agent import ask_customer, lookup_order, refund, send_email
from signoff.domain import Policy, allow, deny, review
from signoff.workers import Agent, effect
from signoff.workers.demo_model import DemoModel

TOOLS = [lookup_order, refund, send_email, ask_customer]
FREELY = Policy([allow("*")])


class FailingModel(DemoModel):
    """Fails so many times in this process, then works."""

    failures: int

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the model is away")
        return super()._generate(messages, stop, run_manager, **kwargs)


class NeverDoneModel(DemoModel):
    """Looks the same order up for ever."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = ToolCall(name="lookup_order", args={"order_id": "A-1001"}, id=f"c{len(messages)}", type="tool_call")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


def _impatient(tool: BaseTool) -> BaseTool:
    mine = tool.model_copy(update={"metadata": None})
    return effect("keyed", window=timedelta(hours=1), max_attempts=2, first_delay=timedelta(milliseconds=50))(mine)


stumbling = Agent(name="stumbling", tools=TOOLS, policy=FREELY, model=FailingModel(failures=1))
broken = Agent(name="broken", tools=TOOLS, policy=FREELY, model=FailingModel(failures=1_000_000))
endless = Agent(name="endless", tools=TOOLS, policy=FREELY, model=NeverDoneModel(), max_tool_rounds=2)
impatient = Agent(name="impatient", tools=[_impatient(refund)], policy=FREELY)
hasty = Agent(name="hasty", tools=TOOLS, policy=FREELY, wall_clock_seconds=0.7)
free = Agent(name="free", tools=TOOLS, policy=FREELY)

# The support desk under policies that came later.
denying = Agent(name=support_desk.name, tools=TOOLS, policy=Policy([deny("refund"), review("*", reviewers=["x"])]))
directors_only = Agent(name=support_desk.name, tools=TOOLS, policy=Policy([review("*", reviewers=["directors"])]))

OTHERS = (stumbling, broken, endless, impatient, hasty, free)


def spec(*names: str) -> str:
    """SIGNOFF_AGENTS for agents of this module."""
    return ",".join(f"{__name__}:{name}" for name in names)
