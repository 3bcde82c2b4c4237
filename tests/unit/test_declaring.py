"""What a tool declares, and what does not go together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool

from signoff.domain.effects import EffectClass
from signoff.domain.errors import AgentInvalid
from signoff.domain.policy import Policy, allow
from signoff.workers import Agent, Compensation, ProbeAnswer, effect
from signoff.workers.declaring import declared, terms_of

DAY = timedelta(days=1)


def probe(args: Any) -> ProbeAnswer:
    return ProbeAnswer("unknown")


@tool
def pay(to: str) -> str:
    """Pays."""
    return to


@tool
async def refund(payment: str) -> str:
    """Refunds."""
    return payment


@pytest.mark.parametrize(
    ("effect_class", "terms", "says"),
    [
        ("odd", {}, "'odd' is not an effect class; it is one of read, transactional, idempotent, keyed"),
        ("keyed", {}, "a 'keyed' effect needs a window"),
        ("opaque", {"window": DAY}, "no other class has one"),
        ("queryable", {}, "a 'queryable' effect needs a probe"),
        ("queryable", {"probe": probe}, "and a quiet_period"),
        ("queryable", {"quiet_period": DAY}, "needs a probe"),
        ("opaque", {"probe": probe, "quiet_period": DAY}, "no other class has them"),
        ("opaque", {"probe": probe}, "only a 'queryable' effect has a probe"),
        ("opaque", {"quiet_period": DAY}, "only a 'queryable' effect has a quiet_period"),
        ("keyed", {"window": DAY, "max_elapsed": DAY}, "its retries may go on for 1 day"),
        ("keyed", {"window": timedelta(minutes=4)}, "5 minutes|0:05:00 are kept as a margin"),
        ("opaque", {"on_doubt": "ignore"}, "on_doubt is 'ignore'; it is one of tell_agent, hold"),
        ("opaque", {"max_attempts": 0}, "max_attempts is 0; it must be more than 0"),
        ("opaque", {"per_minute": 0.0}, "per_minute is 0.0; it must be more than 0"),
        ("opaque", {"first_delay": -DAY}, "can't be negative"),
    ],
)
def test_what_does_not_go_together(effect_class: str, terms: dict[str, Any], says: str) -> None:
    with pytest.raises(AgentInvalid, match=says):
        effect(effect_class, **terms)


def test_the_retries_of_a_keyed_effect_fit_its_window() -> None:
    short, long = timedelta(minutes=30), timedelta(days=2)
    assert terms_of(effect("keyed", window=short)(pay)).max_elapsed == timedelta(minutes=25)
    assert terms_of(effect("keyed", window=long)(pay)).max_elapsed == timedelta(hours=1)


def test_the_strictest_is_what_a_tool_declares_that_declares_nothing() -> None:
    @tool
    def plain(to: str) -> str:
        """Does."""
        return to

    assert declared(plain).terms.effect_class is EffectClass.opaque


def agent(*tools: BaseTool) -> Agent:
    return Agent(name="desk", tools=tools, policy=Policy([allow("*")]))


@pytest.mark.parametrize(
    ("compensation", "says"),
    [
        (Compensation("undo"), "pay is undone by 'undo', which it does not have"),
        (Compensation("refund", {"order": "args.to"}), "refund, which undoes pay, has no 'order'"),
        (Compensation("refund", {"payment": "output.id"}), "must begin with args, result or reference"),
    ],
)
def test_a_compensation_that_can_not_be(compensation: Compensation, says: str) -> None:
    with pytest.raises(AgentInvalid, match=says):
        agent(effect("opaque", compensate=compensation)(pay), refund)


def test_what_is_written_through_our_connection_is_written_on_our_loop() -> None:
    with pytest.raises(AgentInvalid, match="must be async"):
        agent(effect("transactional")(pay))


def test_the_store_is_told_what_undoes_a_tool() -> None:
    undone = effect("opaque", compensate=Compensation("refund", {"payment": "reference"}), provider="bank")(pay)
    assert agent(undone, refund).describe()["pay"] == {
        "schema": agent(undone, refund).schemas["pay"],
        "class": "opaque",
        "provider": "bank",
        "compensation": {"tool": "refund", "args": {"payment": "reference"}},
    }
