"""Where a claimed job goes on: the first rule of the design's step 7 that applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import PendingWrite
from langgraph.types import Command, Interrupt

from signoff.domain.effects import ENDED, EffectStatus
from signoff.domain.errors import CannotResume
from signoff.domain.pauses import HoldPause, Pause, ReviewPause, WaitPause, read_pause
from signoff.domain.reviews import Item, ItemStatus, Review, ReviewStatus
from signoff.domain.verdicts import AtDeadline
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.leases import Claim
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers import refusals, results
from signoff.workers.calls import Call
from signoff.workers.carried_over import carried_over
from signoff.workers.graph import first_input
from signoff.workers.messages import open_calls
from signoff.workers.serving import Graph

# LangGraph's channel of a task's questions (private in 1.2; a test fails if an upgrade renames it).
INTERRUPT = "__interrupt__"
# A cancelled review is met where its job has failed and is retried: nobody can decide it, so its calls are undecided.
ANSWERED = (ReviewStatus.decided, ReviewStatus.expired, ReviewStatus.cancelled, ReviewStatus.superseded)


@dataclass(frozen=True, slots=True)
class HeadState:
    """Where a thread stands: its values, what it asks for, and whether nodes remain. Empty if it has no head."""

    values: Mapping[str, Any] = field(default_factory=dict)
    interrupts: Sequence[Interrupt] = ()
    remains: bool = False


async def read_head(graph: Graph, saver: RunSaver, config: Any, claim: Claim) -> HeadState:
    """Reads no more than the start needs.

    A thread that waits at its own interrupts is read from the checkpoint's pending writes alone: building LangGraph's
    whole snapshot costs as much as a superstep.
    """
    if claim.head is None:
        return HeadState()
    if claim.goes_on and (asked := _asked(await saver.writes_of_head())):
        return HeadState(interrupts=asked)
    state = await graph.aget_state(config)
    # By its tasks and not by `next`: that is empty where a run died after its nodes and before their step was applied.
    return HeadState(state.values, state.interrupts, bool(state.tasks))


def _asked(pending: Sequence[PendingWrite]) -> list[Interrupt]:
    """The interrupts of a checkpoint, if every task that asks has asked one thing and was never answered."""
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in pending:
        by_task.setdefault(task_id, []).append((channel, value))
    asking = [writes for writes in by_task.values() if any(channel == INTERRUPT for channel, _ in writes)]
    if any(len(writes) != 1 for writes in asking):
        return []
    return [interrupt for writes in asking for interrupt in writes[0][1]]


@dataclass(frozen=True, slots=True)
class Start:
    """What to invoke the graph with, or that there is nothing to invoke."""

    kind: Literal["start", "resume", "continue", "park", "finish", "fail"]
    input: Any = None
    answered: Sequence[str] = ()
    pauses: Sequence[Pause] = field(default_factory=tuple)
    reason: str = ""


async def find_start(tx: PostgresTransaction, claim: Claim, state: HeadState) -> Start:
    """Where the run begins, from where the thread stands.

    Raises:
        CannotResume: the thread's state does not fit the job.
    """
    if not claim.goes_on:
        return await _first_start(tx, claim, state)
    pauses = [read_pause(pending.id, pending.value) for pending in state.interrupts]
    if not pauses:
        return Start("continue") if state.remains else Start("finish")
    reviews = {review.interrupt_id: review for review in await tx.reviews.of_job(claim.job.id)}
    if late := _failed(reviews, pauses):
        return Start("fail", answered=tuple(late), reason=_expiry(late))
    answers = await _answers(tx, claim, pauses, reviews)
    if not answers:
        # A run that was lost beside a question has not parked: siblings may not have begun, nor the review be stored.
        parked = claim.head is not None and claim.head.parked
        return Start("park", pauses=pauses) if parked else Start("continue")
    return Start("resume", Command(resume=answers), tuple(answers))


async def _first_start(tx: PostgresTransaction, claim: Claim, state: Any) -> Start:
    if claim.has_reviews:
        raise CannotResume("the job has a review, and its thread no checkpoint of this job")
    messages = state.values.get("messages", ())
    closing = await _closing(tx, messages, state.values.get("calls", ()))
    return Start("start", first_input([*closing, _said(claim, messages)]))


def _said(claim: Claim, messages: Sequence[AnyMessage]) -> HumanMessage:
    """The job's input. Said again behind another job it needs an id of its own: a known one would replace the first."""
    known = f"input-{claim.job.id}"
    again = any(message.id == known for message in messages)
    return HumanMessage(claim.job.input, id=f"{known}-{claim.job.fence}" if again else known)


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


def _failed(reviews: Mapping[str, Review], pauses: Sequence[Pause]) -> dict[str, Item]:
    """What was to be decided in time, or else end the job; by its interrupt."""
    asked = [reviews[pause.interrupt_id] for pause in pauses if pause.interrupt_id in reviews]
    return {
        review.interrupt_id: item
        for review in asked
        if review.status in ANSWERED
        for item in review.items
        if item.status is ItemStatus.expired and item.terms.at_deadline is AtDeadline.fail
    }


def _expiry(late: Mapping[str, Item]) -> str:
    tools = ", ".join(sorted({item.tool for item in late.values()}))
    return f"nobody decided about {tools} in time, and its rule ends the job then"


async def _answers(
    tx: PostgresTransaction, claim: Claim, pauses: Sequence[Pause], reviews: Mapping[str, Review]
) -> dict[str, Any]:
    now = await tx.now() if any(isinstance(pause, WaitPause) for pause in pauses) else claim.job.run_at
    known = await carried_over(tx, claim.job, pauses, reviews)
    answers: dict[str, Any] = {}
    for pause in pauses:
        answer = await _answer(tx, pause, reviews, known, now)
        if answer is not None:
            answers[pause.interrupt_id] = answer
    return answers


async def _answer(
    tx: PostgresTransaction, pause: Pause, reviews: Mapping[str, Review], known: Mapping[str, Item], now: datetime
) -> dict[str, Any] | None:
    if isinstance(pause, ReviewPause):
        return _review_answer(pause, reviews.get(pause.interrupt_id), known)
    effect = await tx.effects.lock(pause.operation_id)
    if isinstance(pause, WaitPause):
        return None if effect is not None and effect.waits and (effect.retry_at or now) > now else {"due": True}
    assert isinstance(pause, HoldPause)
    return None if effect is not None and effect.is_held else {"settled": True}


def _review_answer(pause: ReviewPause, review: Review | None, known: Mapping[str, Item]) -> dict[str, Any] | None:
    """`known`: what has its answer from before."""
    if review is not None and review.status not in ANSWERED:
        return None
    before = [known[item["operation_id"]] for item in pause.items if item["operation_id"] in known]
    if review is None and (not before or len(before) < len(pause.items)):
        return None
    items = [*before, *(review.items if review is not None else ())]
    return {"items": {item.asked_operation_id: outcome_of(item) for item in items}}


def outcome_of(item: Item) -> dict[str, Any]:
    """What became of a call, as the graph reads it. An approval of an amended call is an edit of the one asked for."""
    decision = item.decision
    if decision is None:
        at_deadline = item.terms.at_deadline if item.revision == 1 else AtDeadline.reject
        return {"type": str(item.status), "at_deadline": str(at_deadline)}
    changed = decision.allows and decision.operation_id != item.asked_operation_id
    return {
        "type": "edit" if changed else str(decision.type),
        "operation_id": decision.operation_id,
        "digest": decision.digest,
        "edits": decision.edits,
        "tool": decision.tool,
        "args": None if decision.args is None else dict(decision.args),
        "message": decision.message,
        "then": None if decision.next_step is None else str(decision.next_step),
        "reviewer": decision.reviewer,
    }
