"""What an agent author writes: tools with their effect class, a policy, and an Agent that ties them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from signoff.domain.effects import EffectClass, Terms
from signoff.domain.errors import AgentInvalid
from signoff.domain.policy import Policy
from signoff.domain.policy_file import parse_policy

TERMS_KEY = "signoff_terms"
Tool = TypeVar("Tool", bound=BaseTool)


class Refused(Exception):
    """Raised by a tool: the provider says that it did nothing and never will. The agent is told."""


class NotApplied(Exception):
    """Raised by a tool: nothing happened, for certain, and another try may succeed."""


@dataclass(frozen=True, slots=True)
class CurrentEffect:
    """What a tool may know of the effect that it carries out.

    `idempotency_key` is what the provider is sent: the same for every attempt, new only when an operator
    sends a definitely failed effect again.
    """

    operation_id: str
    idempotency_key: str
    attempt: int


_current: ContextVar[CurrentEffect] = ContextVar("signoff_current_effect")


def current_effect() -> CurrentEffect:
    """The effect that this tool call carries out.

    Raises:
        RuntimeError: called outside a tool that Signoff runs.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("current_effect() is for tools that Signoff runs") from None


@contextmanager
def running(current: CurrentEffect) -> Iterator[None]:
    """Makes `current` what current_effect() returns inside."""
    token = _current.set(current)
    try:
        yield
    finally:
        _current.reset(token)


def effect(
    effect_class: str,
    *,
    window: timedelta | None = None,
    max_attempts: int | None = None,
    first_delay: timedelta | None = None,
) -> Callable[[Tool], Tool]:
    """Declares what may be done when a tool's outcome is unknown: `read`, `idempotent`, `keyed` or `opaque`.

    A tool without a declaration is `opaque`. `keyed` needs the `window` in which the provider honours a key.

    Raises:
        AgentInvalid: an unknown class, or a window where none belongs.
    """
    terms = Terms(effect_class=_class(effect_class), window=window)
    if (terms.effect_class is EffectClass.keyed) != (window is not None):
        raise AgentInvalid(
            "a 'keyed' effect needs a window (how long the provider honours a key), and no other class has one"
        )
    if max_attempts is not None:
        terms = replace(terms, max_attempts=max_attempts)
    if first_delay is not None:
        terms = replace(terms, first_delay=first_delay)

    def declare(tool: Tool) -> Tool:
        tool.metadata = {**(tool.metadata or {}), TERMS_KEY: terms}
        return tool

    return declare


def terms_of(tool: BaseTool) -> Terms:
    terms = (tool.metadata or {}).get(TERMS_KEY)
    return terms if isinstance(terms, Terms) else Terms()


def _class(word: str) -> EffectClass:
    try:
        return EffectClass(word)
    except ValueError:
        raise AgentInvalid(f"{word!r} is not an effect class; it is one of {', '.join(EffectClass)}") from None


@dataclass(frozen=True)
class Agent:
    """An agent as a worker serves it.

    `model` is a chat model, or a name for `init_chat_model` ("openai:gpt-…"), or None for `SIGNOFF_MODEL`.
    `policy` is a Policy or the path of a policy file. `instructions` say what the agent is for; how it must take a
    refusal is added to them.

    Raises:
        AgentInvalid: two tools of one name, or a tool that hides its errors from the executor.
        PolicyInvalid: the policy can't be read, or names a tool that the agent does not have.
    """

    name: str
    tools: Sequence[BaseTool]
    policy: Policy | Path
    instructions: str = ""
    model: BaseChatModel | str | None = None
    max_tool_rounds: int | None = None
    wall_clock_seconds: float | None = None

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise AgentInvalid(f"{self.name}: two tools are named {twice[0]!r}")
        for tool in self.tools:
            if tool.handle_tool_error or tool.handle_validation_error:
                raise AgentInvalid(
                    f"{self.name}: {tool.name} hides its errors (handle_tool_error): then nobody can tell what happened"
                )
        self.loaded_policy.check_tools(names)

    @cached_property
    def loaded_policy(self) -> Policy:
        if isinstance(self.policy, Policy):
            return self.policy
        try:
            return parse_policy(self.policy.read_text(encoding="utf-8"))
        except OSError as error:
            raise AgentInvalid(f"{self.name}: the policy can't be read: {error}") from error

    @cached_property
    def tools_by_name(self) -> Mapping[str, BaseTool]:
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """Each tool's arguments as JSON schema, as the model is told them."""
        return {tool.name: convert_to_openai_tool(tool)["function"].get("parameters", {}) for tool in self.tools}

    def describe(self) -> dict[str, Any]:
        """What the store keeps of the tools: schema and effect class by name."""
        return {
            tool.name: {"schema": self.schemas[tool.name], "class": str(terms_of(tool).effect_class)}
            for tool in self.tools
        }
