"""The gate that every effect passes last, right before its dispatch is marked: whether something holds it back.

Its row is locked already, and its provider's is locked here until the dispatch is committed: so two calls can't both
take the last place.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from signoff.domain.effects import Effect, Outcome, Terms
from signoff.domain.events import EventType, NewEvent
from signoff.domain.holding import (
    SAFETY,
    Bucket,
    Held,
    Leaves,
    WaitsFor,
    after_bad_end,
    has_limits,
    is_good_end,
    let_pass,
    look_again_after_circuit,
    look_again_for_place,
    provider_of,
    refilled,
    seconds_until_one,
    take_one,
)
from signoff.infra.postgres.holdbacks import pause_over
from signoff.infra.postgres.providers import LockedProvider, ProviderTable
from signoff.infra.postgres.store import PostgresTransaction

OURSELVES = "signoff"
MAX_ERROR_CHARACTERS = 500


async def held_back(tx: PostgresTransaction, effect: Effect, terms: Terms, agent: str, now: datetime) -> Held | Leaves:
    """Whether a pause, the provider's circuit or a limit holds the effect back, in this order. If it leaves, it has
    taken its place: the dispatch has to be marked in the same transaction.

    Where `Fenced.holds_back` is false and the tool has no limits (`has_limits`) it need not be asked.
    """
    if pause := await pause_over(tx.conn, agent, effect.tool):
        return Held(now + SAFETY, WaitsFor.pause, f"paused: {pause.reason}")
    providers = ProviderTable(tx.conn)
    name = provider_of(terms, agent, effect.tool)
    found = await (providers.lock(name) if has_limits(terms) else providers.lock_failing(name))
    if found is None:
        return Leaves(failing=False)
    answer = await _at_provider(providers, found, terms)
    if isinstance(answer, Held):
        await providers.wait_for(name, effect.operation_id)
    return answer


async def note_outcome(
    tx: PostgresTransaction, effect: Effect, terms: Terms, agent: str, outcome: Outcome, message: str | None
) -> None:
    """Counts what became of a try for the circuit of its provider, and tells of a circuit that opens or closes. In the
    transaction that records the try; of a success only where `Leaves.failing` was true."""
    providers = ProviderTable(tx.conn)
    name = provider_of(terms, agent, effect.tool)
    if is_good_end(outcome):
        if await providers.reset(name):
            await _tell(tx, EventType.provider_closed, name, {})
        return
    if terms.circuit_failures == 0:
        return
    found = await providers.lock(name)
    after = after_bad_end(found.circuit, terms, found.now)
    error = (message or str(outcome))[:MAX_ERROR_CHARACTERS]
    await providers.save(name, after, error=error)
    if after.opened_at is not None and after.open_until is not None and found.circuit.opened_at is None:
        facts = {"failures": after.failures, "open_until": after.open_until.isoformat(), "error": error}
        await _tell(tx, EventType.provider_opened, name, facts)


async def _at_provider(providers: ProviderTable, found: LockedProvider, terms: Terms) -> Held | Leaves:
    circuit = let_pass(found.circuit, terms, found.now)
    if circuit is None:
        assert found.circuit.open_until is not None
        until = look_again_after_circuit(found.circuit.open_until, random.random())
        return Held(until, WaitsFor.circuit, f"{found.name} fails: nothing is sent to it for a while")
    bucket = None
    if has_limits(terms):
        bucket = await _within_limits(providers, found, terms)
    if isinstance(bucket, Held):
        return bucket
    if bucket is not None or circuit != found.circuit:
        await providers.save(found.name, circuit, bucket)
    return Leaves(found.circuit.is_failing)


async def _within_limits(providers: ProviderTable, found: LockedProvider, terms: Terms) -> Bucket | Held | None:
    """The bucket with one call's worth less, if there is one; Held if a limit is reached."""
    under_way, now = await providers.in_flight(found.name)
    if terms.max_concurrent is not None and under_way >= terms.max_concurrent:
        why = f"{under_way} calls to {found.name} are under way, and no more may be"
        return await _wait_for_place(providers, found.name, now, why)
    if terms.per_minute is None:
        return None
    bucket = refilled(found.bucket, terms.per_minute, now)
    taken = take_one(bucket)
    if taken is not None:
        return taken
    why = f"no more than {terms.per_minute:g} calls to {found.name} may leave in a minute"
    free_in = seconds_until_one(bucket, terms.per_minute)
    return await _wait_for_place(providers, found.name, now, why, free_in, terms.per_minute / 60.0)


async def _wait_for_place(
    providers: ProviderTable, name: str, now: datetime, why: str, free_in: float = 0.0, per_second: float = 0.0
) -> Held:
    waiting = await providers.waiting(name) + 1
    return Held(look_again_for_place(now, free_in, waiting, per_second, random.random()), WaitsFor.limit, why)


async def _tell(tx: PostgresTransaction, type_: EventType, name: str, facts: Mapping[str, Any]) -> None:
    await tx.events.append(NewEvent(type_, f"providers/{name}", OURSELVES, {"provider": name, **facts}))
