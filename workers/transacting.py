"""Effects in our own database: what the tool writes is committed with the ledger's row, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from signoff.domain.effects import Effect, EffectClass, Outcome
from signoff.domain.errors import StoreUnavailable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer, carry_out
from signoff.workers.current import CurrentEffect
from signoff.workers.preparing import Sent

Record = Callable[[PostgresTransaction, Answer], Awaitable[Effect]]


class _RolledBack(Exception):
    """The tool did not succeed: nothing that it wrote is kept."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


async def carry_out_in_transaction(
    store: PostgresStore, sent: Sent, current: CurrentEffect, call_id: str, args: Mapping[str, Any], record: Record
) -> Answer:
    """Calls the tool and, if it succeeds, `record`: in one transaction. Anything but its success has left nothing.

    The record comes last: it takes the lock of the job's row, and a tool may take its time. Until then the worker may
    lose its lease; then `record` refuses, and what the tool wrote is rolled back.

    If the word of the commit is lost, the outcome is unknown here; the ledger knows (`if_committed`).

    Raises:
        LeaseLost: from `record`.
    """
    try:
        async with store.begin() as tx:
            mine = replace(current, transaction=tx.conn)
            answer = await carry_out(sent.tool, sent.terms, mine, call_id, args)
            if answer.outcome is not Outcome.succeeded:
                raise _RolledBack(answer)
            return replace(answer, recorded=await record(tx, answer))
    except _RolledBack as rolled_back:
        return rolled_back.answer
    except StoreUnavailable as error:
        return Answer(Outcome.unknown, f"whether it was committed was not heard: {error.message}", None)


async def if_committed(tx: PostgresTransaction, sent: Sent) -> Effect | None:
    """The effect, if the transaction of its tool was committed after all. Its job's row is locked."""
    if sent.terms.effect_class is not EffectClass.transactional:
        return None
    return await tx.effects.recorded(sent.effect, Outcome.succeeded)
