"""Calling a tool, and reading its outcome honestly: what is not classified is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from signoff.domain.effects import Effect, EffectClass, Outcome, Terms
from signoff.workers import results
from signoff.workers.current import CurrentEffect, running
from signoff.workers.outcomes import NotApplied, Refused, Unknown

MAX_MESSAGE_CHARACTERS = 2000
MAX_REFERENCE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What one attempt came to; `result` is there if and only if it succeeded.

    `reference` is how the provider calls it, `retry_after` when it wants to be asked again. `aside` is the whole
    result, where `result` is but its beginning. `recorded` is the effect where what the tool did was committed together
    with its record. `given_up`: it was us who did not wait. `left_open`: whatever its tool
    declares, nobody can tell what it has left behind.
    """

    outcome: Outcome
    message: str | None
    result: tuple[str, bytes] | None
    reference: str | None = None
    aside: tuple[str, bytes] | None = None
    retry_after: timedelta | None = None
    recorded: Effect | None = None
    given_up: bool = False
    left_open: bool = False


async def carry_out(
    tool: BaseTool, terms: Terms, current: CurrentEffect, call_id: str, args: Mapping[str, Any]
) -> Answer:
    """Calls the tool. Raises nothing but cancellation."""
    call = {"type": "tool_call", "id": call_id, "name": tool.name, "args": dict(args)}
    try:
        with running(current):
            returned = await tool.ainvoke(call)
        return replace(read_result(returned, terms, current.operation_id), reference=_reference(current))
    except Refused as error:
        return _said(Outcome.refused, error)
    except NotApplied as error:
        return replace(_said(Outcome.not_applied, error), retry_after=error.retry_after)
    except GraphBubbleUp as error:
        # A tool that pauses or hands off is not an effect; nothing outside was asked of it.
        return Answer(Outcome.refused, f"{tool.name} tried to steer the graph ({type(error).__name__})", None)
    except ToolException as error:
        # LangChain's word for "tell the agent". It is proof that nothing happened only where nothing can happen.
        told = terms.effect_class is EffectClass.read
        return _said(Outcome.refused if told else Outcome.unknown, error)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled the call: the tool's own affair, as any other error.
        return _said(Outcome.unknown, error)
    except (Exception, SystemExit) as error:
        # A tool that leaves "the program" would take the event loop with it, and every other run.
        return _said(Outcome.unknown, error)


def _reference(current: CurrentEffect) -> str | None:
    text = ", ".join(dict.fromkeys(str(reference) for reference in current.references))
    return results.storable(text)[:MAX_REFERENCE_CHARACTERS] or None


def read_result(returned: Any, terms: Terms, operation_id: str) -> Answer:
    """The success that a tool has returned, or would have."""
    if isinstance(returned, Command):
        # It was carried out; only where it wants to go is not followed.
        text = "[The call was carried out; it returned a Command, which steers the graph and is not followed.]"
        returned = ToolMessage(text, tool_call_id="")
    if not isinstance(returned, ToolMessage):
        returned = ToolMessage(str(returned), tool_call_id="")
    try:
        told, aside = results.within_limit(results.pack(returned), terms.max_result_bytes, operation_id)
        return Answer(Outcome.succeeded, None, told, aside=aside)
    except Exception as error:
        # It happened; only its result can't be kept.
        text = f"[The call was carried out; its result can't be stored: {type(error).__name__}: {error}]"
        return Answer(Outcome.succeeded, None, results.pack(ToolMessage(text, tool_call_id="")))


def _said(outcome: Outcome, error: BaseException) -> Answer:
    text = str(error) or type(error).__name__
    named = text if isinstance(error, Refused | NotApplied | Unknown) else f"{type(error).__name__}: {text}"
    return Answer(outcome, results.storable(named)[:MAX_MESSAGE_CHARACTERS], None)
