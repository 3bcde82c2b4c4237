"""Grants as they are given: which calls, to whom, by whom. What they are worth is `signoff.domain.authority`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signoff.domain.authority import Grant
from signoff.domain.canonical import scrub
from signoff.domain.conditions import ConditionInvalid, compile_condition
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.policy_values import pattern

MOST_TOOLS = 100


@dataclass(frozen=True, slots=True)
class Scope:
    """Which calls: of tools that one of the patterns names, under a condition (CEL). Raises InvalidRequest."""

    tools: tuple[str, ...]
    condition: str | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.tools) <= MOST_TOOLS:
            raise InvalidRequest(f"'tools' must be 1 to {MOST_TOOLS} names or patterns of tools", field="tools")
        for tool in self.tools:
            _check_pattern(tool)
        check_condition(self.condition)


@dataclass(frozen=True, slots=True)
class Given:
    """A grant with whose it is. With a `delegator` it is a delegation: to decide in that person's place."""

    grant: Grant
    person: str
    delegator: str | None
    created_by: str
    created_at: datetime
    revoked_at: datetime | None = None


def check_condition(source: Any) -> None:
    """Raises InvalidRequest for what can't be a condition over a call; none at all is fine."""
    if source is None:
        return
    if not isinstance(source, str) or not source.strip() or scrub(source) != source:
        raise InvalidRequest("'when' must be a condition (CEL), as in args.amount <= 500", field="when")
    try:
        compile_condition(source)
    except ConditionInvalid as error:
        raise InvalidRequest(f"'when' can't be used: {error}", field="when") from None


def _check_pattern(tool: Any) -> None:
    problem = next(pattern(tool), None)
    if problem is None and len(tool) > MAX_NAME_CHARACTERS:
        problem = f"is longer than {MAX_NAME_CHARACTERS} characters"
    if problem is not None:
        raise InvalidRequest(f"'tools': {tool!r}: {problem}", field="tools")
