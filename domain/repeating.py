"""Undoing an effect that has succeeded, or executing it again: each an effect of its own, with its own review.

The job is not touched, and may have ended. Who asks does not decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from signoff.domain.authority import Right, require_right
from signoff.domain.effects import Effect
from signoff.domain.errors import Conflict, EffectNotFound
from signoff.domain.findings import lock_effect
from signoff.domain.jobs import Job
from signoff.domain.lone_calls import compensation, lone_item, repeat, require_repeatable
from signoff.domain.operator_acts import Done, once
from signoff.domain.origins import Origin, OriginKind
from signoff.domain.policy import Judgement
from signoff.domain.ports import NewReview, Store, Transaction
from signoff.domain.registered import Registered
from signoff.domain.review_requests import requested
from signoff.domain.reviews import ALONE, Item
from signoff.domain.settlements import Settlement
from signoff.domain.verdicts import AtDeadline


async def compensate_effect(
    store: Store, operation_id: str, settlement: Settlement, args: Mapping[str, Any] | None = None, *, environment: str
) -> Done:
    """Asks for a review of the call that the effect's tool declares to undo it; `args` in place of those declared.

    The outcome has the call's `operation_id` and its `review_id`.

    Raises: RightMissing, EffectNotFound, EffectNotRepeatable (it has not succeeded, or is undone already),
    CompensationUndeclared, EffectPurged, CallDenied, AgentNotFound, InvalidRequest, UnreadableArguments,
    IdempotencyMismatch.
    """
    origin = Origin(OriginKind.compensation, operation_id)
    return await _ask(store, origin, settlement, args, environment)


async def execute_again(store: Store, operation_id: str, settlement: Settlement, *, environment: str) -> Done:
    """Asks for a review of the same call once more, as an effect of its own.

    Raises: as `compensate_effect`.
    """
    return await _ask(store, Origin(OriginKind.again, operation_id), settlement, None, environment)


async def _ask(
    store: Store, origin: Origin, settlement: Settlement, args: Mapping[str, Any] | None, environment: str
) -> Done:
    require_right(settlement.who, Right.operate)
    word = "compensate" if origin.kind is OriginKind.compensation else "execute_again"
    body: dict[str, Any] = {} if args is None else {"args": dict(args)}
    async with store.begin() as tx:
        job_id = await tx.effects.job_of(origin.operation_id)
        if job_id is None:
            raise EffectNotFound(f"there is no effect {origin.operation_id}")

        async def do() -> Mapping[str, Any]:
            effect, job = await lock_effect(tx, origin.operation_id)
            item, judgement = await _item(tx, effect, job, origin, settlement, args, environment)
            review_id = await _request(tx, job, item, judgement, settlement.who.name)
            return {"operation_id": item.operation_id, "review_id": review_id}

        return await once(tx, settlement.act(f"effect.{word}", origin.operation_id, job_id, body), do)


async def _item(
    tx: Transaction,
    effect: Effect,
    job: Job,
    origin: Origin,
    settlement: Settlement,
    args: Mapping[str, Any] | None,
    environment: str,
) -> tuple[Item, Judgement]:
    known = await tx.lone_reviews.known(effect, origin)
    require_repeatable(effect, origin, known)
    tools = await tx.agents.tools(job.agent) or {}
    registered = Registered(job.agent, job.facts(), environment, await tx.agents.policy(job.agent), tools)
    undoes = origin.kind is OriginKind.compensation
    call = compensation(effect, known, tools, args) if undoes else repeat(effect, known)
    return lone_item(call, origin, known, registered, settlement.who.name, settlement.reason)


async def _request(tx: Transaction, job: Job, item: Item, judgement: Judgement, actor: str) -> str:
    # The last deadline of a ladder that escalates is a rung of it: nothing expires then.
    seconds = None if item.terms.at_deadline is AtDeadline.escalate else judgement.deadline_seconds
    interrupt_id = f"{ALONE}{item.operation_id}"
    new = NewReview(uuid4(), interrupt_id, "", judgement.policy_digest, [item], [seconds])
    deadline_at = await tx.reviews.create(job, new)
    if not (deadline_at is None or isinstance(deadline_at, datetime)):
        raise Conflict("the same has been asked for at once; look again")
    await tx.events.append(requested(job, new, deadline_at, actor))
    return str(new.id)
