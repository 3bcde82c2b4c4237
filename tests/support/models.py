"""A chat model that says what a test has written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import Field


class ScriptedModel(BaseChatModel):
    """Gives its answers in turn, an exception by raising it, and keeps each history that it was asked with.

    Raises:
        AssertionError: it is asked more often than it has answers.
    """

    answers: list[Any] = Field(default_factory=list)
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        place = len(self.asked)
        self.asked.append(list(messages))
        assert place < len(self.answers), f"asked {place + 1} times, and has {len(self.answers)} answers"
        answer = self.answers[place]
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


def scripted(*answers: AIMessage | str | Exception) -> ScriptedModel:
    return ScriptedModel(answers=[AIMessage(answer) if isinstance(answer, str) else answer for answer in answers])


def calling(*calls: tuple[str, dict[str, Any]] | ToolCall, **fields: Any) -> AIMessage:
    """A message with these calls: (tool, args), with ids made up, or whole calls."""
    whole = [
        call if isinstance(call, dict) else ToolCall(name=call[0], args=call[1], id=f"c{place}", type="tool_call")
        for place, call in enumerate(calls)
    ]
    return AIMessage(**{"content": "", **fields}, tool_calls=whole)


def is_complete(messages: Sequence[AnyMessage | BaseMessage]) -> bool:
    """Whether each call of each message has exactly one result before the next message of the model."""
    waiting: list[str | None] = []
    for message in messages:
        if isinstance(message, AIMessage):
            if waiting:
                return False
            waiting = [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]]
        elif isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
    return not waiting
