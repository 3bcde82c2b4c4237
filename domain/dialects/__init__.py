"""Adapters between other systems' wire forms and our decisions."""

from __future__ import annotations

from typing import Any

from signoff.domain.dialects.ag_ui import AgUi
from signoff.domain.dialects.agent_inbox import AgentInbox
from signoff.domain.dialects.dialect import MEDIA_PREFIX, Dialect, media_type
from signoff.domain.dialects.langchain import LangChain
from signoff.domain.dialects.langchain_js import LangChainJs
from signoff.domain.dialects.openai_agents import OpenAiAgents
from signoff.domain.errors import InvalidRequest

__all__ = ["DEFAULT", "DIALECTS", "MEDIA_PREFIX", "Dialect", "dialect_named", "media_type"]

DEFAULT: Dialect = LangChain()
DIALECTS: tuple[Dialect, ...] = (DEFAULT, LangChainJs(), AgentInbox(), AgUi(), OpenAiAgents())


def dialect_named(name: Any) -> Dialect:
    """Raises InvalidRequest for a name that no dialect has."""
    for dialect in DIALECTS:
        if dialect.name == name:
            return dialect
    known = ", ".join(dialect.name for dialect in DIALECTS)
    raise InvalidRequest(f"{name!r:.100} is no dialect; there are {known}", field="dialect")
