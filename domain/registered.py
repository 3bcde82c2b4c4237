"""An agent's policy and tools as its newest worker registered them, with the job that calls belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from signoff.domain.authority import CallFacts
from signoff.domain.errors import AgentNotFound
from signoff.domain.policy import Judgement, Policy


@dataclass(frozen=True, slots=True)
class Registered:
    """`policy` is None where nobody has to ask it, or no worker ever served the agent."""

    agent: str
    job: Mapping[str, Any]
    environment: str
    policy: Policy | None = None
    tools: Mapping[str, Any] = field(default_factory=dict)

    def facts(self, tool: str, args: Mapping[str, Any] | None, *, requested_by: str | None = None) -> CallFacts:
        """The call as a condition sees it; `requested_by` is the operator who asked for it, if no agent did."""
        destination = self._destination(tool, args)
        return CallFacts(tool, args, self.job, self.environment, destination, requested_by=requested_by)

    def judge(self, tool: str, args: Mapping[str, Any], *, hidden: Iterable[str] = ()) -> Judgement:
        """How the policy judges a call of the job now; `hidden` is masked beside what its rule hides.

        Raises AgentNotFound.
        """
        if self.policy is None:
            raise AgentNotFound(f"no worker serves the agent {self.agent!r}: a call can't be judged")
        destination = self._destination(tool, args)
        facts = {"job": self.job, "environment": self.environment, "destination": destination}
        return self.policy.judge(tool, args, **facts, hidden=hidden)

    def knows(self, tool: str) -> bool:
        return tool in self.tools

    def schema(self, tool: str) -> Mapping[str, Any] | None:
        """The tool's arguments as JSON schema."""
        schema: Mapping[str, Any] | None = self.tools.get(tool, {}).get("schema")
        return schema

    def _destination(self, tool: str, args: Mapping[str, Any] | None) -> Any:
        path = self.tools.get(tool, {}).get("destination")
        return destination_of(args or {}, path) if path else None


def destination_of(args: Mapping[str, Any], path: str) -> Any:
    """Where an effect goes: the argument that the tool names for it (a dotted path); None if it is not there."""
    found: Any = args
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
