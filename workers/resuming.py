"""Where a claimed job goes on: the first rule of the design's step 7 that applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from signoff.domain.effects import ENDED, HELD, EffectStatus
from signoff.domain.errors import CannotResume
from signoff.domain.pauses import HoldPause, Pause, ReviewPause, WaitPause, read_pause
from signoff.domain.reviews import Item, Review, ReviewStatus
from signoff.infra.postgres.leases import Claim
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers import refusals, results
from signoff.workers.calls import Call
from signoff.workers.graph import first_input
from signoff.workers.messages import open_calls

ANSWERED = (ReviewStatus.decided, ReviewStatus.expired)


@dataclass(frozen=True, slots=True)
class Start:
    """What to invoke the graph with, or that there is nothing to invoke."""

    kind: Literal["start", "resume", "continue", "park", "finish"]
    input: Any = None
    answered: Sequence[str] = ()
    pauses: Sequence[Pause] = field(default_factory=tuple)


async def find_start(tx: PostgresTransaction, claim: Claim, state: Any) -> Start:
    """Where the run begins. `state` is the thread's StateSnapshot, or None if it has no head.

    Raises:
        CannotResume: the thread's state does not fit the job.
    """
    if claim.head is None or claim.head.job_id != claim.job.id:
        return await _first_start(tx, claim, state)
    pauses = [read_pause(pending.id, pending.value) for pending in state.interrupts]
    if not pauses:
        return Start("continue") if state.next else Start("finish")
    answers = await _answers(tx, claim, pauses)
    if not answers:
        return Start("park", pauses=pauses)
    return Start("resume", Command(resume=answers), tuple(answers))


async def _first_start(tx: PostgresTransaction, claim: Claim, state: Any) -> Start:
    if await tx.reviews.of_job(claim.job.id):
        raise CannotResume("the job has a review, and its thread no checkpoint of this job")
    values: Mapping[str, Any] = state.values if state is not None else {}
    closing = await _closing(tx, values.get("messages", ()), values.get("calls", ()))
    return Start("start", first_input([*closing, HumanMessage(claim.job.input, id=f"input-{claim.job.id}")]))


async def _closing(
    tx: PostgresTransaction, messages: Sequence[AnyMessage], judged: Sequence[Call]
) -> list[ToolMessage]:
    """A result for each call that an earlier job left open: what the ledger knows of it."""
    last = next((message.id for message in reversed(messages) if isinstance(message, AIMessage)), None)
    calls = {call["tool_call_id"]: call for call in judged if call["message_id"] == last}
    return [await _last_word(tx, call_id, tool, calls.get(call_id)) for call_id, tool in open_calls(messages)]


async def _last_word(tx: PostgresTransaction, call_id: str, tool: str, call: Call | None) -> ToolMessage:
    effect = await tx.effects.lock(call["operation_id"]) if call is not None else None
    if call is not None and effect is not None and effect.status in ENDED:
        return results.from_ledger(call, effect)
    unknown = effect is not None and (effect.doubt_since is not None or effect.status is EffectStatus.dispatched)
    text = refusals.unknown(tool) if unknown else refusals.interrupted(tool)
    return ToolMessage(text, tool_call_id=call_id, name=tool, status="error")


async def _answers(tx: PostgresTransaction, claim: Claim, pauses: Sequence[Pause]) -> dict[str, Any]:
    reviews = {review.interrupt_id: review for review in await tx.reviews.of_job(claim.job.id)}
    now = await tx.now()
    answers: dict[str, Any] = {}
    for pause in pauses:
        answer = await _answer(tx, pause, reviews, now)
        if answer is not None:
            answers[pause.interrupt_id] = answer
    return answers


async def _answer(
    tx: PostgresTransaction, pause: Pause, reviews: Mapping[str, Review], now: datetime
) -> dict[str, Any] | None:
    if isinstance(pause, ReviewPause):
        return _review_answer(reviews.get(pause.interrupt_id))
    effect = await tx.effects.lock(pause.operation_id)
    if isinstance(pause, WaitPause):
        waiting = effect is not None and effect.status is EffectStatus.retry_wait
        return None if waiting and effect is not None and (effect.retry_at or now) > now else {"due": True}
    assert isinstance(pause, HoldPause)
    return None if effect is not None and effect.status in HELD else {"settled": True}


def _review_answer(review: Review | None) -> dict[str, Any] | None:
    if review is None or review.status not in ANSWERED:
        return None
    return {"items": {item.operation_id: _outcome(item) for item in review.items}}


def _outcome(item: Item) -> dict[str, Any]:
    decision = item.decision
    if decision is None:
        return {"type": str(item.status)}
    return {
        "type": str(decision.type),
        "operation_id": decision.operation_id,
        "digest": decision.digest,
        "args": None if decision.args is None else dict(decision.args),
        "message": decision.message,
        "then": None if decision.next_step is None else str(decision.next_step),
        "reviewer": decision.reviewer,
    }
