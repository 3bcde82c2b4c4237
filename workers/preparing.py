"""The last look before an effect leaves, in the transaction that marks its dispatch.

A decision that covers exactly these arguments, by as many people as it needs who may still decide, young enough; or,
for a call that was never an item of a review, what allows it now: a rule, or a standing approval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from langchain_core.tools import BaseTool

from signoff.domain.canonical import call_digest
from signoff.domain.effects import (
    ENDED,
    AtEnd,
    Effect,
    EffectClass,
    EffectStatus,
    Step,
    Terms,
    after_doubt,
    after_lapse,
    as_sent,
    before_repeat,
    is_due,
)
from signoff.domain.errors import DigestMismatch, LeaseLost
from signoff.domain.holding import Held, Leaves, has_limits
from signoff.domain.jobs import Job
from signoff.domain.policy import Judgement
from signoff.domain.reviews import ItemStatus
from signoff.domain.verdicts import DecisionType
from signoff.infra.postgres.effects_examined import AskedBefore, Examined
from signoff.infra.postgres.store import PostgresTransaction
from signoff.workers import refusals, results
from signoff.workers.allowing import NO_TOOL, Allowing
from signoff.workers.approving import Answer, Case, Fine, ReviewAgain, Revoked, time_allows
from signoff.workers.asking_again import ask_again, still_asked
from signoff.workers.calls import Call
from signoff.workers.declaring import declared, terms_of
from signoff.workers.graph import Pending, Told
from signoff.workers.holding_back import held_back
from signoff.workers.inheriting import of_another_job
from signoff.workers.prechecking import Checked, Prechecks, again_for_change
from signoff.workers.probing import Asks
from signoff.workers.stepping import take_step

# While the same call is under way by itself.
LOOK_AGAIN = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Sent:
    """An effect whose dispatch is marked and committed. `failing`: its provider has had bad ends lately."""

    effect: Effect
    tool: BaseTool
    terms: Terms
    agent: str
    failing: bool = False


Prepared = Sent | Asks | Prechecks | Told | Pending
"""What becomes of a call: it is sent, or something is asked first, or the agent is told, or it waits."""


class Preparing:
    """Prepares one call of a run. `holds_back`: there may be something that holds it back. `checked` is what its tool's
    precheck has said, once it was asked."""

    def __init__(
        self, allowing: Allowing, worker: str, fence: int, *, holds_back: bool, checked: Checked | None = None
    ) -> None:
        self._allowing = allowing
        self._agent = allowing.agent
        self._worker = worker
        self._fence = fence
        self._holds_back = holds_back
        self._checked = checked

    async def prepare(self, tx: PostgresTransaction, call: Call, now: datetime) -> Prepared:
        """Marks the dispatch, or says why not. Raises DigestMismatch."""
        examined = await tx.effects.examine(call["operation_id"])
        if examined is None:
            return await self._first_time(tx, call, now)
        return await self._as_examined(tx, call, examined)

    async def _as_examined(self, tx: PostgresTransaction, call: Call, examined: Examined) -> Prepared:
        _require_same(call, examined.effect)
        if examined.effect.status in ENDED:
            return outcome_for(call, examined.effect, self._terms(examined.effect))
        if examined.effect.job_id != self._allowing.job.id:
            return of_another_job(call, examined, self._terms(examined.effect))
        if examined.lease_until is not None and examined.lease_until > examined.now:
            return _waiting(examined.effect, min(examined.lease_until, examined.now + LOOK_AGAIN))
        examined = await self._out_of_doubt(tx, examined)
        effect = examined.effect
        if not is_due(effect, examined.now):
            return waiting(effect)
        if asks := self._asks(examined):
            return asks
        if effect.is_held:
            return outcome_for(call, effect, self._terms(effect))
        if examined.asked:
            return Pending(still_asked(effect.operation_id, self._agent.loaded_policy.digest))
        answer = await self._allowing.answer(tx, examined, call.get("unseen"))
        if not isinstance(answer, Fine):
            return await self._not_now(tx, call, effect, answer)
        terms = terms_of(self._agent.tools_by_name[effect.tool])
        if step := before_repeat(effect, as_sent(terms, examined.effect_class), now=examined.now):
            effect = await take_step(tx, effect, step, self._worker)
            return self._asks(replace(examined, effect=effect)) or outcome_for(call, effect, terms)
        if self._has_changed(examined):
            return await self._ask_about_change(tx, call, effect, answer.judgement)
        return await self._dispatch(tx, effect, examined.now)

    async def _first_time(self, tx: PostgresTransaction, call: Call, now: datetime) -> Prepared:
        """No decision planned it: it runs only by what allows it now, if nobody was ever asked about it."""
        effect = _planned(self._allowing.job, call)
        case = self._allowing.case(effect, call.get("unseen"), now)
        if case is None:
            return Told(results.refusal(call, refusals.denied(call["tool"], NO_TOOL.reason)))
        _require_same(call, effect)
        answer = await self._allowing.without_decision(tx, case)
        if isinstance(answer, Fine) and (status := await self._allow(tx, effect, case, answer)):
            return await self._once_allowed(tx, call, effect, status, now)
        if (examined := await tx.effects.examine(effect.operation_id)) is not None:
            # Another job of the lineage was first.
            return await self._as_examined(tx, call, examined)
        before = await tx.effects.newest_item(case.operation_id)
        if before is not None:
            return await self._as_answered(tx, call, effect, case, answer, before)
        if isinstance(answer, ReviewAgain):
            return Pending(ask_again(call, answer))
        tool = call["tool"]
        told = refusals.denied(tool, answer.reason) if isinstance(answer, Revoked) else refusals.undecided(tool)
        return Told(results.refusal(call, told))

    async def _as_answered(
        self,
        tx: PostgresTransaction,
        call: Call,
        effect: Effect,
        case: Case,
        answer: Answer,
        before: AskedBefore,
    ) -> Prepared:
        """Somebody was asked, and nobody allowed it; or nobody has answered yet, or not in time."""
        if before.status is ItemStatus.open:
            return Pending(still_asked(case.operation_id, case.judgement.policy_digest))
        by_time = not isinstance(answer, Revoked) and time_allows(case, before)
        if by_time and (status := await self._allow(tx, effect, case, Fine(case.judgement), by_time=True)):
            return await self._once_allowed(tx, call, effect, status, case.now)
        return Told(results.refusal(call, _as_refused(call["tool"], before)))

    async def _allow(
        self, tx: PostgresTransaction, effect: Effect, case: Case, fine: Fine, *, by_time: bool = False
    ) -> EffectStatus | None:
        return await tx.effects.allow(
            self._allowing.job,
            effect,
            case.effect_class,
            fine.judgement,
            standing_id=fine.standing_id,
            by_time=by_time,
        )

    async def _once_allowed(
        self, tx: PostgresTransaction, call: Call, effect: Effect, status: EffectStatus, now: datetime
    ) -> Prepared:
        if status is EffectStatus.planned:
            return await self._dispatch(tx, effect, now)
        found = await tx.effects.lock(effect.operation_id)
        assert found is not None
        return outcome_for(call, found, self._terms(found))

    async def _out_of_doubt(self, tx: PostgresTransaction, examined: Examined) -> Examined:
        """Moves what a lost worker left dispatched into doubt, and out of it again where the tool's class allows."""
        effect, terms = examined.effect, self._terms(examined.effect)
        if effect.status is EffectStatus.dispatched:
            for step in after_lapse(examined.effect_class, doubted=effect.doubt_since is not None):
                effect = await take_step(tx, effect, step, self._worker)
        if effect.status is EffectStatus.in_doubt and terms is not None and not examined.awaits_operator:
            out = after_doubt(effect, as_sent(terms, examined.effect_class), now=examined.now)
            effect = await take_step(tx, effect, out, self._worker) if out else effect
        return replace(examined, effect=effect)

    async def _not_now(
        self, tx: PostgresTransaction, call: Call, effect: Effect, answer: Revoked | ReviewAgain
    ) -> Told | Pending:
        # If it was ever sent, nobody may send it again and nobody knows about the first try: that stays doubt.
        doubted = effect.doubt_since is not None
        if isinstance(answer, ReviewAgain) and not doubted:
            return Pending(ask_again(call, answer))
        to = EffectStatus.in_doubt if doubted else EffectStatus.revoked
        after = await take_step(tx, effect, Step(to, doubt=doubted, reason=answer.reason), self._worker)
        return outcome_for(call, after, self._terms(after))

    def _asks(self, examined: Examined) -> Asks | None:
        """What to ask the provider with, if it can be asked about the effect, and has not been asked in vain."""
        effect, terms = examined.effect, self._terms(examined.effect)
        in_doubt = effect.status is EffectStatus.in_doubt and not examined.awaits_operator
        if not in_doubt or terms is None:
            return None
        if as_sent(terms, examined.effect_class).effect_class is not EffectClass.queryable:
            return None
        return Asks(effect, self._agent.tools_by_name[effect.tool], terms, examined.now)

    def _has_changed(self, examined: Examined) -> bool:
        """True if the tool's precheck found a change that nobody has decided about. What was sent before, with an
        outcome that nobody knows, may itself be the change: a repeat of it is not checked."""
        changed = self._checked.changed if self._checked is not None else None
        if changed is None or examined.effect.doubt_since is not None:
            return False
        return not examined.is_known_change(changed)

    async def _ask_about_change(
        self, tx: PostgresTransaction, call: Call, effect: Effect, judgement: Judgement
    ) -> Told | Pending:
        assert self._checked is not None
        assert self._checked.changed is not None
        await tx.effects.note_change(effect, self._checked.changed)
        return await self._not_now(tx, call, effect, again_for_change(judgement, self._checked.changed))

    async def _dispatch(self, tx: PostgresTransaction, effect: Effect, now: datetime) -> Sent | Prechecks | Pending:
        tool = self._agent.tools_by_name[effect.tool]
        says = declared(tool)
        if says.precheck is not None and self._checked is None and effect.doubt_since is None:
            return Prechecks(effect, says.precheck)
        passed = await self._pass(tx, effect, says.terms, now)
        if isinstance(passed, Held):
            return waiting(await tx.effects.wait(effect, passed.until, passed.waits_for))
        try:
            sent = await tx.effects.dispatch(effect, says.terms, fence=self._fence, worker=self._worker)
        except LeaseLost:
            # Somebody may have paused it since this transaction began.
            passed = await held_back(tx, effect, says.terms, self._allowing.job.agent, now)
            if not isinstance(passed, Held):
                raise
            return waiting(await tx.effects.wait(effect, passed.until, passed.waits_for))
        return Sent(sent, tool, says.terms, self._agent.name, passed.failing)

    async def _pass(self, tx: PostgresTransaction, effect: Effect, terms: Terms, now: datetime) -> Held | Leaves:
        if not (self._holds_back or has_limits(terms)):
            return Leaves(failing=False)
        return await held_back(tx, effect, terms, self._allowing.job.agent, now)

    def _terms(self, effect: Effect) -> Terms | None:
        tool = self._agent.tools_by_name.get(effect.tool)
        return None if tool is None else terms_of(tool)


def outcome_for(call: Call, effect: Effect, terms: Terms | None) -> Told | Pending:
    """What the agent is told of an effect, or what its call waits for."""
    if waits := _waits(effect):
        return waits
    tells = terms is not None and terms.at_end(effect.status) is AtEnd.tell_agent
    if effect.is_held and not tells:
        return Pending({"kind": "hold", "operation_id": effect.operation_id})
    return Told(results.from_ledger(call, effect))


def waiting(effect: Effect) -> Pending:
    """The pause of an effect that is not due yet."""
    assert effect.retry_at is not None
    return _waiting(effect, effect.retry_at)


def _waits(effect: Effect) -> Pending | None:
    """None if nothing comes of waiting. What is in doubt waits where its provider will be asked again."""
    return _waiting(effect, effect.retry_at) if effect.waits and effect.retry_at is not None else None


def _waiting(effect: Effect, until: datetime) -> Pending:
    return Pending({"kind": "wait", "operation_id": effect.operation_id, "retry_at": until.isoformat()})


def _as_refused(tool: str, before: AskedBefore) -> str:
    if before.status is ItemStatus.expired:
        return refusals.expired(tool)
    if before.type is DecisionType.reject:
        return refusals.rejected(tool, before.message, before.next_step or "stop")
    return refusals.undecided(tool)


def is_whole(effect: Effect) -> bool:
    """True if the row's arguments are those of its digest: what leaves is what was allowed."""
    return effect.purged_at is not None or call_digest(effect.tool, effect.args) == effect.digest


def _require_same(call: Call, effect: Effect) -> None:
    same = effect.digest == call["digest"] == call_digest(call["tool"], call["args"] or {})
    if not (same and is_whole(effect)):
        raise DigestMismatch(f"the operation {effect.operation_id} stands for another call", tool=call["tool"])


def _planned(job: Job, call: Call) -> Effect:
    args = call["args"] or {}
    return Effect(
        operation_id=call["operation_id"],
        generation=0,
        job_id=job.id,
        thread_id=job.thread_id,
        tool=call["tool"],
        args=args,
        digest=call_digest(call["tool"], args),
        status=EffectStatus.planned,
        attempts=0,
    )
