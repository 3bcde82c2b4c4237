"""What an agent author writes: tools with what they declare, a policy, and an Agent that ties them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from signoff.domain.authority import CallFacts
from signoff.domain.effects import AtEnd, EffectClass, EffectStatus
from signoff.domain.errors import AgentInvalid
from signoff.domain.policy import Judgement, Policy
from signoff.domain.policy_file import parse_policy
from signoff.domain.registered import destination_of
from signoff.workers.declaring import Compensation, declared, terms_of
from signoff.workers.injected import state_fields, ungiven

S = EffectStatus


@dataclass(frozen=True)
class Agent:
    """An agent as a worker serves it.

    `model` is a chat model, or a name for `init_chat_model` ("openai:gpt-…"), or None for `SIGNOFF_MODEL`.
    `policy` is a Policy or the path of a policy file. `instructions` say what the agent is for; how it must take a
    refusal is added to them. `max_refused_repeats`: after how many exact repeats of a refused call the job ends.
    `build`: see `from_graph`.

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
    build: Callable[[Any], Any] | None = None

    @classmethod
    def from_graph(
        cls,
        *,
        name: str,
        build: Callable[[Any], Any],
        tools: Sequence[BaseTool],
        policy: Policy | Path,
        wall_clock_seconds: float | None = None,
    ) -> Agent:
        """An agent that is a graph of its author's own, whose nodes carry out effects by `await effect.run(…)`.

        `build(checkpointer)` returns a StateGraph, or a compiled one. Its state has `messages`: the job's input comes
        in there, and the text of the last of them is the job's result. A node that pauses by an interrupt of its own
        makes the job wait for an operator.
        """
        return cls(name, tools, policy, build=build, wall_clock_seconds=wall_clock_seconds)

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
        if self.build is not None and state_fields(tool):
            raise AgentInvalid(f"{self.name}: {tool.name} wants the state of a run, and effect.run() has none to give")
        if missing := ungiven(tool):
            raise AgentInvalid(
                f"{self.name}: {tool.name} wants {missing[0]!r} injected, which a worker has not to give"
            )
        if terms_of(tool).effect_class is EffectClass.transactional and getattr(tool, "coroutine", None) is None:
            raise AgentInvalid(
                f"{self.name}: {tool.name} is 'transactional', so it must be async: our connection lives on our loop"
            )
        path = declared(tool).destination
        if path is not None and path.split(".")[0] not in self.schemas[tool.name].get("properties", {}):
            raise AgentInvalid(f"{self.name}: {tool.name} has no argument {path!r}, where its effects are to go")
        if compensation := declared(tool).compensation:
            self._check_compensation(tool, compensation)

    def _check_compensation(self, tool: BaseTool, compensation: Compensation) -> None:
        undoing = next((other for other in self.tools if other.name == compensation.tool), None)
        if undoing is None:
            raise AgentInvalid(f"{self.name}: {tool.name} is undone by {compensation.tool!r}, which it does not have")
        known = self.schemas[undoing.name].get("properties", {})
        if unknown := sorted(set(compensation.args) - set(known)):
            raise AgentInvalid(f"{self.name}: {undoing.name}, which undoes {tool.name}, has no {unknown[0]!r}")
        for path in compensation.args.values():
            if path.split(".")[0] not in ("args", "result", "reference"):
                raise AgentInvalid(
                    f"{self.name}: {path!r}, for what undoes {tool.name}, must begin with args, result or reference"
                )

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
        path = declared(known).destination if known is not None else None
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
        """What the store keeps of each tool: schema, effect class and, if there are any, destination by name, what
        undoes it, and the rest of what those need who settle its effects elsewhere."""
        return {tool.name: self._description(tool) for tool in self.tools}

    def _description(self, tool: BaseTool) -> dict[str, Any]:
        says = declared(tool)
        undone = says.compensation
        optional = {
            "destination": says.destination,
            "compensation": None if undone is None else {"tool": undone.tool, "args": dict(undone.args)},
            "provider": says.terms.provider,
            # Of doubt and of an end without success: which the agent is told of, and its job goes on.
            "tells": [str(end) for end in (S.in_doubt, S.dead) if says.terms.at_end(end) is AtEnd.tell_agent] or None,
        }
        plain = {"schema": self.schemas[tool.name], "class": str(says.terms.effect_class)}
        return {**plain, **{name: value for name, value in optional.items() if value is not None}}
