"""Effects in our own database: what the tool writes is committed with the ledger's row, or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from signoff.domain.effects import Effect, EffectClass, Outcome
from signoff.domain.errors import Conflict, StoreUnavailable
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.workers.carrying import Answer, carry_out
from signoff.workers.current import CurrentEffect
from signoff.workers.preparing import Sent

SWALLOWED = "a statement failed, and the tool went on as if it had not"
ENDED_IT = "the tool has ended the transaction by itself: what it had written may be there"
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

    A tool that ends the transaction by itself may have left something behind: then nobody knows.

    If the word of the commit is lost, the outcome is unknown here; the ledger knows (`if_committed`).

    Raises:
        LeaseLost: from `record`.
    """
    try:
        async with store.begin() as tx:
            begun = await _transaction_id(tx)
            answer = await carry_out(sent.tool, sent.terms, replace(current, transaction=tx.conn), call_id, args)
            failed = answer.outcome is not Outcome.succeeded
            if tx.conn.info.transaction_status == TransactionStatus.INERROR:
                raise _RolledBack(answer if failed else Answer(Outcome.unknown, SWALLOWED, None))
            if await _transaction_id(tx) != begun:
                raise _RolledBack(Answer(Outcome.unknown, ENDED_IT, None, left_open=True))
            if failed:
                raise _RolledBack(answer)
            return replace(answer, recorded=await record(tx, answer))
    except _RolledBack as rolled_back:
        return rolled_back.answer
    except (psycopg.Error, Conflict) as error:
        # Also what only the commit has found: a constraint that is checked last.
        return Answer(Outcome.unknown, f"{type(error).__name__}: {error}", None)
    except StoreUnavailable as error:
        return Answer(Outcome.unknown, f"whether it was committed was not heard: {error.message}", None)


async def _transaction_id(tx: PostgresTransaction) -> str:
    row = await (await tx.conn.execute("SELECT pg_current_xact_id()::text AS id")).fetchone()
    assert row is not None
    return str(row["id"])


async def if_committed(tx: PostgresTransaction, sent: Sent) -> Effect | None:
    """The effect, if the transaction of its tool was committed after all. Its job's row is locked."""
    if sent.terms.effect_class is not EffectClass.transactional:
        return None
    return await tx.effects.recorded(sent.effect, Outcome.succeeded)
