"""Effects that a fork meets while they are under way elsewhere."""

from __future__ import annotations

from datetime import timedelta

from signoff.infra.postgres.effects_examined import Examined
from signoff.workers.graph import Pending

LOOK_AGAIN = timedelta(seconds=30)


def of_another_job(examined: Examined) -> Pending:
    """What a call waits for whose effect belongs to another job and has not ended. It is never moved from here: that
    job's fence, and its cancellation, would not hold for it."""
    operation = examined.effect.operation_id
    if examined.effect.is_held:
        return Pending({"kind": "hold", "operation_id": operation})
    retry_at = examined.now + LOOK_AGAIN
    return Pending({"kind": "wait", "operation_id": operation, "retry_at": retry_at.isoformat()})
