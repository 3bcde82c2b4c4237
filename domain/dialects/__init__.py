"""Adapters between other systems' wire forms and our decisions."""

from __future__ import annotations

from signoff.domain.dialects.ag_ui import AgUi
from signoff.domain.dialects.agent_inbox import AgentInbox
from signoff.domain.dialects.dialect import MEDIA_PREFIX, Dialect, media_type
from signoff.domain.dialects.langchain import LangChain
from signoff.domain.dialects.langchain_js import LangChainJs
from signoff.domain.dialects.openai_agents import OpenAiAgents

__all__ = ["DEFAULT", "DIALECTS", "MEDIA_PREFIX", "Dialect", "media_type"]

DEFAULT: Dialect = LangChain()
DIALECTS: tuple[Dialect, ...] = (DEFAULT, LangChainJs(), AgentInbox(), AgUi(), OpenAiAgents())
