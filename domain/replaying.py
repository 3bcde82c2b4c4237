"""Replaying many: a plan is made, looked at, and applied item by item, each once for the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import EffectNotFound, JobNotFound, PlanOutdated, RightMissing, SignoffError
from signoff.domain.findings import REPLAYED, carry_out, lock_effect
from signoff.domain.jobs import Job
from signoff.domain.operator_acts import OperatorAct, once
from signoff.domain.ports import Hints, Store, Transaction
from signoff.domain.replay_plans import EffectFacts, Entry, ReplayPlan, Wanted, entries_of, outdated
from signoff.domain.retrying import queue_again
from signoff.domain.settling import Risks

SENDABLE = (EffectStatus.failed, EffectStatus.dead)


class Did(StrEnum):
    """What became of an entry: `repeated` if this plan had done it before, `left` if there was nothing to do."""

    done = "done"
    repeated = "repeated"
    left = "left"
    refused = "refused"


@dataclass(frozen=True, slots=True)
class Applied:
    """One entry, and what came of it; `code` says why it was refused."""

    kind: str
    id: str
    did: Did
    status: str | None = None
    code: str | None = None
    message: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "did": str(self.did)}


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan that still holds: what is to be done now, and what of that this plan has done before.

    `outdated` are the entries that no longer hold, where these are to be left out.
    """

    plan: ReplayPlan
    part: tuple[Entry, ...]
    done_before: frozenset[str]
    outdated: frozenset[str] = frozenset()


async def plan_replay(store: Store, wanted: Wanted, who: Principal, *, environment: str) -> ReplayPlan:
    """What replaying all of these would do. Nothing is changed.

    Raises: RightMissing, InvalidRequest; EffectNotFound, JobNotFound for one that is named.
    """
    require_right(who, Right.operate)
    async with store.begin() as tx:
        entries = await _look(tx, wanted, environment)
        _require_named(wanted, entries)
        now = await tx.now()
    return ReplayPlan(str(uuid4()), who.name, now.isoformat(), wanted.to_dict(), entries)


async def check_plan(
    store: Store,
    plan: ReplayPlan,
    who: Principal,
    *,
    environment: str,
    first: int | None,
    limit: int,
    skip_outdated: bool = False,
) -> Checked:
    """Whether the plan may be applied now: everything of it is as it was, but for what it has done itself.

    Raises: RightMissing, PlanTooLarge; PlanOutdated with the entries that have changed, unless they are to be skipped.
    """
    require_right(who, Right.operate)
    part = plan.part(first, limit)
    async with store.begin() as tx:
        now = await _now(tx, plan.acting, environment)
        # Read after the rest: what this plan does meanwhile is then among it.
        done = await tx.replayables.done_by(plan.id)
    open_ = [entry for entry in plan.acting if plan.request_id(entry) not in done]
    changed = outdated(open_, now)
    if changed and not skip_outdated:
        raise PlanOutdated(f"the world has changed since the plan was made, in {len(changed)} places", entries=changed)
    return Checked(plan, part, frozenset(done), frozenset(one["id"] for one in changed))


async def apply_entry(
    store: Store, hints: Hints, checked: Checked, entry: Entry, who: Principal, reason: str, *, environment: str
) -> Applied:
    """Does one item in a transaction of its own, if it is still as it was planned. Never raises what refuses it."""
    plan = checked.plan
    if plan.request_id(entry) in checked.done_before:
        return Applied(entry.kind, entry.id, Did.repeated)
    if entry.id in checked.outdated:
        return Applied(entry.kind, entry.id, Did.left, code=PlanOutdated.code, message="it has changed since")
    try:
        return await _apply(store, hints, plan, entry, who, reason, environment)
    except SignoffError as error:
        if await _is_done(store, plan, entry):
            return Applied(entry.kind, entry.id, Did.repeated)
        return Applied(entry.kind, entry.id, Did.refused, code=error.code, message=error.message)


def _require_named(wanted: Wanted, entries: Sequence[Entry]) -> None:
    found = {entry.id for entry in entries} | {effect["operation_id"] for entry in entries for effect in entry.effects}
    for operation in wanted.operations:
        if operation not in found:
            raise EffectNotFound(f"there is no effect {operation}")
    for job_id in wanted.job_ids:
        if str(job_id) not in found:
            raise JobNotFound(f"there is no job {job_id}")


async def _is_done(store: Store, plan: ReplayPlan, entry: Entry) -> bool:
    """True if somebody else has applied the same plan at once."""
    async with store.begin() as tx:
        return plan.request_id(entry) in await tx.replayables.done_by(plan.id)


async def _apply(
    store: Store, hints: Hints, plan: ReplayPlan, entry: Entry, who: Principal, reason: str, environment: str
) -> Applied:
    jobs: list[Job] = []
    async with store.begin() as tx:
        job_id = UUID(entry.id) if entry.kind == "job" else await tx.effects.job_of(entry.id)
        word = "job.retry" if entry.kind == "job" else "effect.replay"
        act = OperatorAct(who, word, entry.id, reason, plan.request_id(entry), {"plan": plan.id}, job_id)
        await _require_still(tx, who)

        async def do() -> Mapping[str, Any]:
            job, status = await _do(tx, entry, who, reason, environment)
            jobs.append(job)
            return {"id": entry.id, "status": status}

        done = await once(tx, act, do)
    for job in jobs:
        hints.offer(job.agent, job.id)
    did = Did.repeated if done.repeated else Did.done
    return Applied(entry.kind, entry.id, did, done.outcome["status"])


async def _require_still(tx: Transaction, who: Principal) -> None:
    """A plan may take hours, and who applies it may lose the right meanwhile. Raises RightMissing."""
    now = await tx.principals.get(who.name)
    if now is None or now.revoked:
        raise RightMissing(f"{who.name} was revoked meanwhile")
    require_right(now, Right.operate)


async def _do(tx: Transaction, entry: Entry, who: Principal, reason: str, environment: str) -> tuple[Job, str]:
    """Under the locks: nothing of what is looked at here changes any more."""
    if entry.kind == "job":
        job = await tx.jobs.lock(UUID(entry.id))
        await _require_same(tx, entry, environment)
        assert job is not None
        return job, str(await queue_again(tx, job, who.name))
    effect, job = await lock_effect(tx, entry.id)
    await _require_same(tx, entry, environment)
    REPLAYED.require(effect)
    after = await carry_out(tx, effect, job, REPLAYED, who.name, reason)
    return job, str(after.status)


async def _require_same(tx: Transaction, entry: Entry, environment: str) -> None:
    if changed := outdated([entry], await _now(tx, [entry], environment)):
        raise PlanOutdated("it has changed since the plan was made", entries=changed)


async def _now(tx: Transaction, entries: Sequence[Entry], environment: str) -> dict[tuple[str, str], Entry]:
    if not entries:
        return {}
    operations = tuple(entry.id for entry in entries if entry.kind == "effect")
    job_ids = tuple(UUID(entry.id) for entry in entries if entry.kind == "job")
    found = await _look(tx, Wanted(operations=operations, job_ids=job_ids), environment)
    return {(entry.kind, entry.id): entry for entry in found}


async def _look(tx: Transaction, wanted: Wanted, environment: str) -> tuple[Entry, ...]:
    risks: dict[str, Risks] = {}
    effects = [await _judged(tx, facts, risks, environment) for facts in await tx.replayables.effects(wanted)]
    return entries_of(effects, await tx.replayables.jobs(wanted))


async def _judged(tx: Transaction, facts: EffectFacts, risks: dict[str, Risks], environment: str) -> EffectFacts:
    """What would be sent again is judged by the policy as it is now."""
    if facts.status not in SENDABLE or facts.purged or facts.paused:
        return facts
    if facts.agent not in risks:
        risks[facts.agent] = await Risks.of(tx, facts.agent)
    job = await tx.jobs.get(facts.job_id)
    assert job is not None
    return replace(facts, high_risk=risks[facts.agent].are_high(facts.tool, facts.args, job, environment))
