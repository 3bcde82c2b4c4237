"""Asking a provider what became of an effect in doubt."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from langchain_core.tools import BaseTool

from signoff.domain.effects import Effect, EffectStatus, Found, Terms, after_probe, ask_again_at
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers import results
from signoff.workers.carrying import MAX_MESSAGE_CHARACTERS, MAX_REFERENCE_CHARACTERS, Answer, read_result
from signoff.workers.current import CurrentEffect, running
from signoff.workers.declaring import ProbeAnswer, declared
from signoff.workers.evidence import hear_late
from signoff.workers.shielding import is_cancelled
from signoff.workers.stepping import take_step

LONGEST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Asks:
    """An effect in doubt whose provider can be asked, and is to be asked now: `at`, by the database's clock."""

    effect: Effect
    tool: BaseTool
    terms: Terms
    at: datetime


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of asking. `answer` is what the tool would have answered, if it was applied."""

    found: Found
    reference: str | None = None
    message: str | None = None
    answer: Answer | None = None


async def ask_provider(asks: Asks, current: CurrentEffect, args: Mapping[str, Any]) -> Finding:
    """Calls the tool's probe. What it raises, and whatever takes too long, means that it is still not known."""
    probe = declared(asks.tool).probe
    if probe is None:
        return Finding(Found.unknown, message=f"{asks.tool.name} has no probe any more")
    try:
        with running(current):
            async with asyncio.timeout(LONGEST_SECONDS):
                answer = probe(dict(args))
                return _read(await answer if inspect.isawaitable(answer) else answer, asks)
    except TimeoutError:
        return Finding(Found.unknown, message=f"no answer within {LONGEST_SECONDS:g} s")
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return Finding(Found.unknown, message=_short(f"{type(error).__name__}: {error}"))
    except (Exception, SystemExit) as error:
        return Finding(Found.unknown, message=_short(f"{type(error).__name__}: {error}"))


async def settle(tx: PostgresTransaction, asks: Asks, finding: Finding, actor: str) -> Effect | None:
    """Keeps the finding, and takes the effect where it leads; nowhere, if it is still not known: then it is asked
    again at a time, or an operator has to find out. The job is locked. None if the effect has moved meanwhile: then
    that it happened is taken as any word that comes late."""
    terms = asks.terms
    effect = await tx.effects.lock(asks.effect.operation_id)
    asked = await tx.doubt.keep_finding(asks.effect, actor, finding.found, finding.reference, finding.message)
    assert effect is not None
    if not effect.is_as(asks.effect):
        if finding.answer is not None:
            await hear_late(tx, effect, asks.effect, terms, finding.answer, actor)
        return None
    # "Not found" is the word of the time of the question, however long the answer took.
    steps = after_probe(effect, terms, finding.found, now=asks.at)
    if not steps:
        return await _look_again(tx, effect, ask_again_at(effect, terms, asked, now=await tx.now()))
    for step in steps:
        answer = finding.answer if step.to is EffectStatus.succeeded else None
        effect = await take_step(tx, effect, step, actor, answer=answer)
    return effect


async def _look_again(tx: PostgresTransaction, effect: Effect, at: datetime | None) -> Effect:
    if at is None:
        await tx.effects.leave_to_operator(effect.operation_id)
        return effect
    return await tx.effects.wait(effect, at, "answer")


def _read(answer: ProbeAnswer, asks: Asks) -> Finding:
    found = Found(answer.found)
    reference = None if answer.reference is None else results.storable(str(answer.reference))[:MAX_REFERENCE_CHARACTERS]
    message = None if answer.message is None else _short(str(answer.message))
    return Finding(found, reference, message, _success(answer, reference, asks) if found is Found.applied else None)


def _success(answer: ProbeAnswer, reference: str | None, asks: Asks) -> Answer:
    told = (
        answer.result if answer.result is not None else f"Done; the provider's reference is {reference or 'unknown'}."
    )
    return replace(read_result(told, asks.terms, asks.effect.operation_id), reference=reference)


def _short(text: str) -> str:
    return results.storable(text)[:MAX_MESSAGE_CHARACTERS]
