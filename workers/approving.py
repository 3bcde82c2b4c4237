"""Whether an effect may leave now: the guard that no routing, middleware or stored verdict replaces.

Rules alone, and no I/O: `signoff.workers.allowing` brings what they judge by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from signoff.domain.authority import CallFacts, still_holds
from signoff.domain.effects import EffectClass
from signoff.domain.policy import Judgement, Verdict
from signoff.domain.reviews import ItemStatus
from signoff.domain.standing import StandingApproval, judge_standing
from signoff.domain.verdicts import AtDeadline, DecisionType
from signoff.infra.postgres.effects_examined import Approval, AskedBefore, Vote


@dataclass(frozen=True, slots=True)
class Fine:
    """It may leave: by its decisions, or else by this judgement, and the standing approval that it stands on."""

    judgement: Judgement
    standing_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    """It must not leave, and nobody is asked about it."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReviewAgain:
    """It may leave once `approvals` different people have allowed it anew."""

    judgement: Judgement
    approvals: int
    reason: str


Answer = Fine | Revoked | ReviewAgain
"""Whether an effect may leave now."""


@dataclass(frozen=True, slots=True)
class Case:
    """A call as it would leave now, and what the policy says of it now."""

    operation_id: str
    digest: str
    facts: CallFacts
    judgement: Judgement
    effect_class: EffectClass
    now: datetime

    @property
    def needs_review(self) -> bool:
        return self.judgement.verdict is Verdict.review


def by_decisions(case: Case, approval: Approval) -> Answer:
    """The answer for a call that people have decided about. What the policy denies now runs by no decision.

    A decision counts if it covers exactly this call, is young enough, and its reviewer could decide so now: as one of
    those who were asked and, where the policy wants a review, of those whom it would ask. Nobody's voice counts twice.
    """
    if case.judgement.verdict is Verdict.deny:
        return _denied(case.judgement)
    votes = [vote for vote in approval.votes if (vote.operation_id, vote.digest) == (case.operation_id, case.digest)]
    if not votes:
        return Revoked("the decision covers other arguments")
    needed = _needed(case, approval, votes)
    looked_at = [(vote, _flaw(vote, approval, case)) for vote in votes]
    flaws = [flaw for _, flaw in looked_at if flaw]
    good = [vote for vote, flaw in looked_at if not flaw and _satisfies_policy(vote, case)]
    if _voices(good) >= needed:
        return Fine(case.judgement)
    if flaws:
        return Revoked(flaws[0])
    if not case.needs_review:
        return Revoked(f"it has {_voices(good)} of {needed} approvals")
    return _again(case, needed, "the policy was tightened")


def without_decision(case: Case, standing: Iterable[StandingApproval]) -> Answer:
    """The answer for a call that stands on no decision: on a rule, or on a standing approval."""
    if case.judgement.verdict is Verdict.deny:
        return _denied(case.judgement)
    stood = judge_standing(case.judgement, standing, case.facts, case.now)
    if stood.judgement.verdict is Verdict.deny:
        return Revoked(stood.judgement.reason)
    if stood.judgement.verdict is Verdict.allow:
        return Fine(stood.judgement, stood.standing_id)
    return _again(case, case.judgement.approvals, "what allowed it does not any more")


def time_allows(case: Case, before: AskedBefore) -> bool:
    """True if nobody decided in time about a call that only reads, and the rule says that it goes on then.

    It said so when people were asked, and says so still. What somebody had amended meanwhile does not run.
    """
    expired = before.status is ItemStatus.expired and before.revision == 1
    said = before.terms.at_deadline is AtDeadline.approve
    says = case.needs_review and case.judgement.at_deadline is AtDeadline.approve
    return expired and said and says and case.effect_class is EffectClass.read


def _needed(case: Case, approval: Approval, votes: Sequence[Vote]) -> int:
    """How many different people have to allow it: as the review asked, and as the policy would ask now."""
    if not case.needs_review:
        return approval.approvals
    edited = any(vote.type is DecisionType.edit for vote in votes)
    another = case.judgement.edits_need_another or not case.judgement.evaluated
    return max(approval.approvals, case.judgement.approvals, 2 if edited and another else 1)


def _flaw(vote: Vote, approval: Approval, case: Case) -> str | None:
    """Why a decision has lost its authority; None if it has it still."""
    if not still_holds(vote.authority, vote.who, approval.reviewers, case.facts, case.now):
        return f"{vote.authority.reviewer}, who approved it, may no longer decide this"
    ends = _ends(vote, approval.valid_for_seconds)
    return f"the approval was valid until {ends.isoformat()}" if ends is not None and case.now > ends else None


def _satisfies_policy(vote: Vote, case: Case) -> bool:
    """True unless the policy now wants other people, or younger decisions."""
    if not case.needs_review:
        return True
    judgement = case.judgement
    asked = still_holds(vote.authority, vote.who, judgement.all_reviewers, case.facts, case.now)
    ends = _ends(vote, judgement.approval_valid_for_seconds)
    return asked and (ends is None or case.now <= ends)


def _ends(vote: Vote, valid_for_seconds: float | None) -> datetime | None:
    return None if valid_for_seconds is None else vote.decided_at + timedelta(seconds=valid_for_seconds)


def _voices(votes: Iterable[Vote]) -> int:
    spoken: set[str] = set()
    count = 0
    for vote in votes:
        if spoken.isdisjoint(vote.authority.people):
            count += 1
        spoken |= vote.authority.people
    return count


def _denied(judgement: Judgement) -> Revoked:
    return Revoked(f"the policy now denies it ({judgement.reason})")


def _again(case: Case, approvals: int, why: str) -> Revoked | ReviewAgain:
    if not case.judgement.reviewers:
        return Revoked("it needs a review now, and the policy names no reviewers for it")
    return ReviewAgain(case.judgement, approvals, f"{why}: {case.judgement.reason}")
