"""Effects that a fork meets while they are under way elsewhere."""

from __future__ import annotations

from datetime import timedelta

from signoff.domain.effects import AtEnd, Terms
from signoff.infra.postgres.effects_examined import Examined
from signoff.workers import results
from signoff.workers.calls import Call
from signoff.workers.graph import Pending, Told

LOOK_AGAIN = timedelta(seconds=30)


def of_another_job(call: Call, examined: Examined, terms: Terms | None) -> Told | Pending:
    """What a call waits for whose effect belongs to another job and has not ended. It is never moved from here: that
    job's fence, and its cancellation, would not hold for it. Of an end that the tool wants told, the agent is told."""
    status = examined.effect.status
    if examined.effect.is_held and terms is not None and terms.at_end(status) is AtEnd.tell_agent:
        return Told(results.from_ledger(call, examined.effect))
    operation = examined.effect.operation_id
    if examined.effect.is_held:
        return Pending({"kind": "hold", "operation_id": operation})
    retry_at = examined.now + LOOK_AGAIN
    return Pending({"kind": "wait", "operation_id": operation, "retry_at": retry_at.isoformat()})
