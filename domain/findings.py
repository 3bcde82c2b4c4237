"""What an operator's finding, substitute or replay makes of an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from signoff.domain.effects import Effect, EffectStatus, Step
from signoff.domain.errors import Conflict, EffectNotFound, EffectNotInDoubt, EffectNotReplayable, EffectPurged
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import ENDED, Job, JobStatus
from signoff.domain.ports import Transaction
from signoff.domain.told import Result, pack_text

S = EffectStatus


class Finding(StrEnum):
    """What an operator found out about an effect in doubt."""

    applied = "applied"
    not_applied = "not_applied"


@dataclass(frozen=True, slots=True)
class Move:
    """Where an act takes an effect: from one of `sources`, or `refusal` is raised."""

    to: EffectStatus
    sources: tuple[EffectStatus, ...]
    refusal: type[Conflict]
    reference: str | None = None
    result: Result | None = None

    def require(self, effect: Effect) -> None:
        """Raises `refusal`; EffectPurged, if it would be sent without its arguments."""
        if effect.status not in self.sources:
            words = " or ".join(self.sources)
            raise self.refusal(f"the effect is {effect.status}; this needs it {words}", status=str(effect.status))
        if self.to is S.planned and effect.purged_at is not None:
            raise EffectPurged("its arguments are no longer kept, so it can't be sent again")


REPLAYED = Move(S.planned, (S.failed, S.dead), EffectNotReplayable)


def move_of(body: Mapping[str, Any]) -> Move:
    """The move of a finding, or of a substitute, as the body of its request says it."""
    told = None if body["result"] is None else pack_text(body["result"])
    if "finding" not in body:
        return Move(S.skipped, (S.in_doubt, S.failed, S.dead), EffectNotReplayable, result=told)
    to = S.succeeded if body["finding"] == Finding.applied else S.retry_wait
    return Move(to, (S.in_doubt,), EffectNotInDoubt, body["reference"], told)


async def lock_effect(tx: Transaction, operation_id: str) -> tuple[Effect, Job]:
    """The effect and its job, locked. Raises EffectNotFound."""
    job_id = await tx.effects.job_of(operation_id)
    job = await tx.jobs.lock(job_id) if job_id else None
    effect = await tx.effects.lock(operation_id)
    if effect is None or job is None:
        raise EffectNotFound(f"there is no effect {operation_id}")
    return effect, job


async def carry_out(tx: Transaction, effect: Effect, job: Job, move: Move, actor: str, reason: str) -> Effect:
    """Moves the effect, which `move` was asked about, and lets its job go on.

    Raises: EffectNotReplayable, if it is a compensation, and another one of the same effect has been carried out.
    """
    if move.to is S.planned and await tx.effects.is_compensated_otherwise(effect.operation_id):
        raise EffectNotReplayable(
            "another compensation of the same effect is there already: this one would be a second"
        )
    await tx.effects.move(
        effect,
        Step(move.to, doubt=False, reason=reason),
        actor=actor,
        reference=move.reference,
        result=move.result,
        new_generation=move.to is S.planned and effect.status is S.failed,
        alone=await _runs_alone(tx, effect, job, move),
    )
    if job.status is JobStatus.awaiting_operator:
        await tx.jobs.move(job.id, JobStatus.queued)
    elif job.status in ENDED:
        # Nothing that a finding lets go is sent for a job that has ended, unless it was replayed since.
        await tx.effects.cancel_unsent(job.id, actor)
    after = await tx.effects.lock(effect.operation_id)
    assert after is not None
    await tx.events.append(_event(effect, after.status, move.reference, actor, reason))
    return after


async def _runs_alone(tx: Transaction, effect: Effect, job: Job, move: Move) -> bool:
    """True if the agent was told, or its job has ended: history stays as it was, and the effect runs by itself. What
    did not happen for a job that has ended is let be, unless it is replayed."""
    if job.status in ENDED:
        return move.to is S.planned
    if move.to not in (S.planned, S.retry_wait):
        return False
    if effect.status is S.failed:
        return not effect.holds
    tools = await tx.agents.tools(job.agent) or {}
    return str(effect.status) in tools.get(effect.tool, {}).get("tells", ())


def _event(effect: Effect, to: EffectStatus, reference: str | None, actor: str, reason: str) -> NewEvent:
    data = {
        "operation_id": effect.operation_id,
        "job_id": str(effect.job_id),
        "tool": effect.tool,
        "from": str(effect.status),
        "to": str(to),
        "reason": reason,
        "reference": reference,
    }
    return NewEvent(EventType.effect_settled, f"effects/{effect.operation_id}", actor, data, effect.job_id)
