"""A deterministic chat model that understands a few plain English requests, so that nothing here needs a key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from signoff.workers.demo_requests import ADDRESS, Request, Wish, read_request, understood
from signoff.workers.refusals import NEXT_STEP

MOST_ROUNDS = 3
_LIMIT = re.compile(
    r"\b(?:at most|up to|no more than|not more than|only|max(?:imum)?(?: of| is)?|limit(?: of| is)?)[\s€$A-Z]{0,6}?"
    r"(?<!-)(\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_CHANGED = re.compile(r"^\[(A reviewer changed this call\..*?\))\]\n", re.DOTALL)
_ADVICE = re.compile("|".join(re.escape(step) for step in NEXT_STEP.values()))


class DemoModel(BaseChatModel):
    """Answers from the history alone: the same history, the same answer, with the same ids.

    It proposes at most MOST_ROUNDS times for one request, then reports what happened. A call that was rejected with
    leave to revise and a lower number in the reason ("at most 20") is proposed anew once, with that number.
    """

    @property
    def _llm_type(self) -> str:
        return "signoff-demo"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        tools = frozenset(tool["function"]["name"] for tool in kwargs.get("tools", ()))
        answer = _answer(messages, tools)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _answer(messages: Sequence[BaseMessage], tools: frozenset[str]) -> AIMessage:
    turn = _Turn(messages, tools)
    calls = [
        ToolCall(name=wish.tool, args=wish.args, id=f"call_{len(messages)}_{place}", type="tool_call")
        for place, wish in enumerate(turn.next_calls())
    ]
    return AIMessage("" if calls else turn.report(), tool_calls=calls, id=f"demo-{len(messages)}")


class _Turn:
    """What has happened since the user's last message."""

    def __init__(self, messages: Sequence[BaseMessage], tools: frozenset[str]) -> None:
        last = max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)
        since = messages[last + 1 :]
        text = str(messages[last].text) if last >= 0 else ""
        self.request: Request = read_request(text, tools)
        self.tools = tools
        self.rounds = [message for message in since if isinstance(message, AIMessage) and message.tool_calls]
        self.calls = [call for message in self.rounds for call in message.tool_calls]
        self.results = {message.tool_call_id: message for message in since if isinstance(message, ToolMessage)}

    def next_calls(self) -> list[Wish]:
        """What to propose now; nothing if the answer is due."""
        if not self.rounds:
            return self._first_calls()
        if len(self.rounds) >= MOST_ROUNDS:
            return []
        return [*self._mails_with_address(), *self._revised()]

    def report(self) -> str:
        """What came of each call, in plain words."""
        lines = [self._line(call, self.results[call["id"] or ""]) for call in self.calls if call["id"] in self.results]
        lines += [
            f"Not done: the mail about order {wish.address_of}. Its lookup told no address."
            for wish in self.request.wishes
            if wish.address_of and self.rounds and not self._address_of(wish.address_of)
        ]
        if not lines:
            return understood(self.tools)
        return "\n".join([*lines, *(f"Not understood: {part}" for part in self.request.unread)])

    def _first_calls(self) -> list[Wish]:
        wanted = [
            Wish("lookup_order", {"order_id": wish.address_of}) if wish.address_of else wish
            for wish in self.request.wishes
        ]
        return [wish for place, wish in enumerate(wanted) if wish not in wanted[:place]]

    def _mails_with_address(self) -> list[Wish]:
        """The mails whose address a lookup has told by now."""
        if len(self.rounds) > 1:
            return []
        found = [(wish, self._address_of(wish.address_of)) for wish in self.request.wishes if wish.address_of]
        return [Wish(wish.tool, {**wish.args, "to": address}) for wish, address in found if address]

    def _address_of(self, order: str) -> str | None:
        for call in self.calls:
            result = self.results.get(call["id"] or "")
            looked_up = call["name"] == "lookup_order" and call["args"].get("order_id") == order
            if looked_up and result is not None and result.status == "success":
                found = ADDRESS.search(str(result.text))
                return found.group() if found else None
        return None

    def _revised(self) -> list[Wish]:
        """Rejected calls of the last round with the lower number that the reason names, each at most once."""
        last = self.rounds[-1].tool_calls
        revised = [self._revise(call) for call in last if not self._is_revision(call)]
        return [wish for wish in revised if wish is not None]

    def _revise(self, call: ToolCall) -> Wish | None:
        result = self.results.get(call["id"] or "")
        if result is None or result.status != "error" or NEXT_STEP["revise"] not in str(result.text):
            return None
        limit = _LIMIT.search(str(result.text))
        if limit is None:
            return None
        most = float(limit.group(1))
        lower = {key: most for key, value in call["args"].items() if _is_above(value, most)}
        return Wish(call["name"], {**call["args"], **lower}) if lower else None

    def _is_revision(self, call: ToolCall) -> bool:
        """Whether an earlier round of this turn had the same call with other numbers."""
        earlier = [old for message in self.rounds[:-1] for old in message.tool_calls]
        return any(old["name"] == call["name"] and _words(old) == _words(call) for old in earlier)

    def _line(self, call: ToolCall, result: ToolMessage) -> str:
        text = str(result.text).strip()
        if result.status == "error":
            return f"Not done: {_shown(call)}. {_ADVICE.sub('', text).strip()}"
        if call["name"] == "ask_customer":
            return f"The customer's answer: {text}"
        if changed := _CHANGED.match(text):
            return f"{text[changed.end() :]} ({changed.group(1)})"
        return text or f"Done: {_shown(call)}."


def _is_above(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > most


def _words(call: ToolCall) -> dict[str, Any]:
    return {key: value for key, value in call["args"].items() if not isinstance(value, int | float)}


def _shown(call: ToolCall) -> str:
    return f"{call['name']}({', '.join(f'{key}={value!r}' for key, value in call['args'].items())})"
