"""Standing approvals: a person's word, given beforehand, for calls that a rule would have reviewed.

They change a verdict of review alone: never what a rule allows or denies. One that refuses goes before one that allows,
and one that allows is worth what its creator's own decision about exactly this call would be worth now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from signoff.domain.authority import Authority, CallFacts, Principal, Right, still_holds
from signoff.domain.policy import Judgement
from signoff.domain.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingApproval:
    """Allows or denies one tool of an agent, in a job, in a thread, until a time, under a condition (CEL).

    What is given of these has to hold, all of it. `created_by` is the creator as of now.
    """

    id: UUID
    agent: str
    tool: str
    verdict: Verdict
    condition: str | None = None
    job_id: UUID | None = None
    thread_id: str | None = None
    expires_at: datetime | None = None
    created_by: Principal
    reason: str | None = None
    created_at: datetime
    revoked_at: datetime | None = None

    @property
    def rule(self) -> str:
        """How a verdict names it in the place of a rule."""
        return f"standing approval {self.id}"

    def is_active(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def is_about(self, call: CallFacts) -> bool:
        """True if the call is of its agent, tool, job and thread; the condition is not looked at."""
        wanted = {"agent": self.agent, "id": self.job_id and str(self.job_id), "thread": self.thread_id}
        inside = all(value is None or call.job.get(name) == value for name, value in wanted.items())
        return inside and self.tool == call.tool


@dataclass(frozen=True, slots=True)
class Stood:
    """A judgement, and the standing approval that it stands on, if it does on one."""

    judgement: Judgement
    standing_id: UUID | None = None


def judge_standing(
    judgement: Judgement, approvals: Iterable[StandingApproval], call: CallFacts, now: datetime
) -> Stood:
    """The judgement as the standing approvals leave it."""
    if judgement.verdict is not Verdict.review:
        return Stood(judgement)
    fitting = [one for one in approvals if one.is_active(now) and one.is_about(call)]
    for one in fitting:
        if one.verdict is Verdict.deny and call.answer(one.condition) is not False:
            return _stood(judgement, one, "refuses it")
    for one in fitting:
        if one.verdict is Verdict.allow and _allows(one, judgement, call, now):
            return _stood(judgement, one, "allows it")
    return Stood(judgement)


def _allows(one: StandingApproval, judgement: Judgement, call: CallFacts, now: datetime) -> bool:
    """One voice, of somebody who could decide exactly this call now and still has the right to do so beforehand."""
    who = one.created_by
    readable = call.args is not None and judgement.evaluated and call.answer(one.condition) is True
    alone = judgement.approvals == 1 and not judgement.edits_need_another
    own = still_holds(Authority(who.name), who, judgement.reviewers, call, now)
    return readable and alone and own and Right.standing in who.rights


def _stood(judgement: Judgement, one: StandingApproval, says: str) -> Stood:
    why = f": {one.reason}" if one.reason else ""
    reason = f"{one.created_by.name} {says} by {one.rule}{why}"
    return Stood(replace(judgement, verdict=one.verdict, rule=one.rule, reason=reason), one.id)
