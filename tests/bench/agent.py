"""The agent that is measured: one reviewed call of one tool that answers at once, and a model that costs nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from signoff.domain import Policy, review
from signoff.workers import Agent, effect

NAME = "bench"
MODEL_SECONDS = "BENCH_MODEL_SECONDS"


@effect("keyed", window=timedelta(hours=24))
@tool
async def refund(order_id: str, amount: float) -> str:
    """Pays an amount of an order back."""
    return f"refunded {amount} on {order_id}"


class BenchModel(BaseChatModel):
    """Proposes one refund, then says that it is done."""

    @property
    def _llm_type(self) -> str:
        return "bench"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            answer = AIMessage("The refund is made.", id=str(uuid4()))
        else:
            call = {"name": "refund", "args": {"order_id": "A-1001", "amount": 42.5}, "id": f"call-{uuid4()}"}
            answer = AIMessage("", tool_calls=[call], id=str(uuid4()))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if seconds := float(os.environ.get(MODEL_SECONDS, "0")):
            await asyncio.sleep(seconds)
        return self._generate(messages)


agent = Agent(NAME, [refund], Policy([review("refund", reviewers=["leads"])]), model=BenchModel())
