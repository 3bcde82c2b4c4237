"""What operators say of effects, and what of it waits for a second person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from signoff.domain.authority import Principal
from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.operator_acts import OperatorAct


@dataclass(frozen=True, slots=True)
class Settlement:
    """Who settles, why, the provider's reference if it has one, and the id by which the request counts once."""

    who: Principal
    reason: str
    reference: str | None = None
    request_id: str | None = None

    def act(self, act: str, operation_id: str, job_id: UUID, body: Mapping[str, Any]) -> OperatorAct:
        return OperatorAct(self.who, act, operation_id, self.reason, self.request_id, body, job_id)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What `proposed_by` has found out of an effect that was where `status` and `attempts` say."""

    id: UUID
    operation_id: str
    act: str
    body: Mapping[str, Any]
    digest: str
    reason: str
    status: EffectStatus
    attempts: int
    proposed_by: str

    def still_fits(self, effect: Effect) -> bool:
        return (effect.status, effect.attempts) == (self.status, self.attempts)


class Settlements(Protocol):
    """Each is called with the effect locked."""

    async def waiting(self, operation_id: str) -> Waiting | None: ...

    async def add(self, waiting: Waiting) -> None: ...

    async def end(self, settlement_id: UUID, ending: str, by: str) -> None: ...
