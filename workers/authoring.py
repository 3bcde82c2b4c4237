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

from signoff.domain.authority import CallFacts
from signoff.domain.effects import EffectClass, Terms
from signoff.domain.errors import AgentInvalid
from signoff.domain.policy import Judgement, Policy
from signoff.domain.policy_file import parse_policy
from signoff.domain.registered import destination_of
from signoff.workers.injected import state_fields, ungiven

TERMS_KEY = "signoff_terms"
DESTINATION_KEY = "signoff_destination"
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
    destination: str | None = None,
) -> Callable[[Tool], Tool]:
    """Declares what may be done when a tool's outcome is unknown: `read`, `idempotent`, `keyed` or `opaque`.

    A tool without a declaration is `opaque`. `keyed` needs the `window` in which the provider honours a key.
    `destination` names the argument (a dotted path) that says where the effect goes, for rules to look at.

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
        tool.metadata = {**(tool.metadata or {}), TERMS_KEY: terms, DESTINATION_KEY: destination}
        return tool

    return declare


def terms_of(tool: BaseTool) -> Terms:
    terms = (tool.metadata or {}).get(TERMS_KEY)
    return terms if isinstance(terms, Terms) else Terms()


def destination_path(tool: BaseTool) -> str | None:
    """The argument (a dotted path) that says where the tool's effects go, if it names one."""
    path = (tool.metadata or {}).get(DESTINATION_KEY)
    return path if isinstance(path, str) else None


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
    refusal is added to them. `max_refused_repeats`: after how many exact repeats of a refused call the job ends.

    Raises:
        AgentInvalid: two tools of one name, or a tool that hides its errors from the executor.
        PolicyInvalid: the policy can't be read, names a tool that the agent does not have, or lets time approve what
            does more than read.
    """

    name: str
    tools: Sequence[BaseTool]
    policy: Policy | Path
    instructions: str = ""
    model: BaseChatModel | str | None = None
    max_tool_rounds: int | None = None
    max_refused_repeats: int | None = None
    wall_clock_seconds: float | None = None

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise AgentInvalid(f"{self.name}: two tools are named {twice[0]!r}")
        for tool in self.tools:
            self._check(tool)
        self.loaded_policy.check_tools(names)
        self.loaded_policy.check_classes({tool.name: terms_of(tool).effect_class for tool in self.tools})

    def _check(self, tool: BaseTool) -> None:
        if tool.handle_tool_error or tool.handle_validation_error:
            raise AgentInvalid(
                f"{self.name}: {tool.name} hides its errors (handle_tool_error): then nobody can tell what happened"
            )
        if missing := ungiven(tool):
            raise AgentInvalid(
                f"{self.name}: {tool.name} wants {missing[0]!r} injected, which a worker has not to give"
            )
        path = destination_path(tool)
        if path is not None and path.split(".")[0] not in self.schemas[tool.name].get("properties", {}):
            raise AgentInvalid(f"{self.name}: {tool.name} has no argument {path!r}, where its effects are to go")

    @cached_property
    def loaded_policy(self) -> Policy:
        if isinstance(self.policy, Policy):
            return self.policy
        try:
            return parse_policy(self.policy.read_text(encoding="utf-8"))
        except OSError as error:
            raise AgentInvalid(f"{self.name}: the policy can't be read: {error}") from error

    def has_policy(self, digest: str | None) -> bool:
        """False if a newer worker has registered another policy for the agent; None: nobody has registered any."""
        return digest in (None, self.loaded_policy.digest)

    @cached_property
    def tools_by_name(self) -> Mapping[str, BaseTool]:
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """Each tool's arguments as JSON schema, as the model is told them."""
        return {tool.name: convert_to_openai_tool(tool)["function"].get("parameters", {}) for tool in self.tools}

    @cached_property
    def state_fields(self) -> Mapping[str, Mapping[str, str | None]]:
        """By tool: which arguments are given from the run's state, and from which of its fields (None: all of it)."""
        found = {tool.name: state_fields(tool) for tool in self.tools}
        return {name: fields for name, fields in found.items() if fields}

    def destination_of(self, tool: str, args: Mapping[str, Any] | None) -> Any:
        """Where a call goes, as far as its tool and arguments say; None if they don't."""
        known = self.tools_by_name.get(tool)
        path = destination_path(known) if known is not None else None
        return destination_of(args or {}, path) if path else None

    def judge(self, call: CallFacts) -> Judgement:
        """What the policy says of a call now. Arguments that can't be read count as none."""
        return self.loaded_policy.judge(
            call.tool,
            call.args or {},
            job=call.job,
            environment=call.environment,
            destination=call.destination,
            unseen=call.unseen,
        )

    def describe(self) -> dict[str, Any]:
        """What the store keeps of the tools: schema, effect class and, if there is one, destination by name."""
        return {tool.name: self._description(tool) for tool in self.tools}

    def _description(self, tool: BaseTool) -> dict[str, Any]:
        plain = {"schema": self.schemas[tool.name], "class": str(terms_of(tool).effect_class)}
        path = destination_path(tool)
        return plain if path is None else {**plain, "destination": path}
