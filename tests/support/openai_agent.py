"""An agent whose model `SIGNOFF_MODEL` names, and one that names its own."""

from __future__ import annotations

from langchain_core.tools import tool

from signoff.domain import Policy, allow, review
from signoff.workers import Agent, effect


@effect("read")
@tool
def stock(item: str) -> str:
    """How many of an item there are."""
    return f"7 of {item}"


@effect("idempotent")
@tool
def order(item: str, number: int) -> str:
    """Orders so many of an item."""
    return f"ordered {number} of {item}"


POLICY = Policy([allow("stock"), review("order", reviewers=["support-leads"])])

agent = Agent(name="buyer", tools=[stock, order], policy=POLICY, instructions="You buy for a shop.")

# Models of this name are spoken to by the Responses API.
responding = Agent(name="responding", tools=[stock, order], policy=POLICY, model="openai:codex-mini-latest")
