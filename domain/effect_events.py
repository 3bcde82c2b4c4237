"""What is told of an effect: an event for each state that somebody may wait for."""

from __future__ import annotations

from collections.abc import Mapping

from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.events import EventType, NewEvent

TOLD: Mapping[EffectStatus, EventType] = {
    EffectStatus.succeeded: EventType.effect_succeeded,
    EffectStatus.failed: EventType.effect_failed,
    EffectStatus.in_doubt: EventType.effect_doubted,
    EffectStatus.dead: EventType.effect_died,
    EffectStatus.revoked: EventType.effect_revoked,
}


def event_of(effect: Effect, to: EffectStatus, actor: str, message: str | None) -> NewEvent | None:
    """The event of an effect that goes `to`; None if nothing is told of that."""
    kind = TOLD.get(to)
    if kind is None:
        return None
    data = {"operation_id": effect.operation_id, "job_id": str(effect.job_id), "tool": effect.tool, "message": message}
    return NewEvent(kind, f"effects/{effect.operation_id}", actor, data, effect.job_id)
