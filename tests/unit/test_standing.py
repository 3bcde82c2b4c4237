"""What a standing approval does to a judgement, and when it does nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.authority import CallFacts, Delegation, Grant, Principal, PrincipalKind, Right
from signoff.domain.policy import Judgement
from signoff.domain.standing import StandingApproval, judge_standing
from signoff.domain.verdicts import Verdict

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON = NOW + timedelta(hours=1)
JOB = UUID(int=7)
RIGHTS = frozenset({Right.review, Right.standing})
RITA = Principal("rita", PrincipalKind.person, frozenset({"finance"}), RIGHTS)
REVIEW = Judgement(Verdict.review, "refunds", "digest", "'refunds' says review", reviewers=("finance",))
CALL = CallFacts(
    "refund", {"amount": 30}, {"id": str(JOB), "agent": "desk", "thread": "t-1", "submitted_by": "shop"}, "test"
)
UNREADABLE = replace(CALL, args=None)


def standing(verdict: Verdict = Verdict.allow, number: int = 1, **changes: Any) -> StandingApproval:
    plain = StandingApproval(
        id=UUID(int=number),
        agent="desk",
        tool="refund",
        verdict=verdict,
        expires_at=SOON,
        created_by=RITA,
        reason="the sale",
        created_at=NOW,
    )
    return replace(plain, **changes)


ALLOW, DENY = standing(), standing(Verdict.deny, 2)


@pytest.mark.parametrize("verdict", [Verdict.allow, Verdict.deny])
def test_a_review_becomes_what_it_says_and_says_by_whom(verdict: Verdict) -> None:
    one = standing(verdict)
    stood = judge_standing(REVIEW, [one], CALL, NOW)
    assert stood.standing_id == one.id
    assert (stood.judgement.verdict, stood.judgement.rule) == (verdict, f"standing approval {one.id}")
    assert "rita" in stood.judgement.reason
    assert "the sale" in stood.judgement.reason
    assert stood.judgement.policy_digest == "digest"


@pytest.mark.parametrize("verdict", [Verdict.allow, Verdict.deny])
def test_what_a_rule_allows_or_denies_stays_so(verdict: Verdict) -> None:
    judgement = replace(REVIEW, verdict=verdict)
    stood = judge_standing(judgement, [ALLOW, DENY], CALL, NOW)
    assert (stood.judgement, stood.standing_id) == (judgement, None)


def test_one_that_denies_goes_first_and_the_oldest_that_fits_is_named() -> None:
    assert judge_standing(REVIEW, [ALLOW, DENY], CALL, NOW).standing_id == DENY.id
    assert judge_standing(REVIEW, [standing(tool="mail"), ALLOW, standing(number=3)], CALL, NOW).standing_id == ALLOW.id


@pytest.mark.parametrize("verdict", [Verdict.allow, Verdict.deny])
@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "refunds"},
        {"tool": "ref*"},
        {"agent": "other"},
        {"job_id": UUID(int=8)},
        {"thread_id": "t-2"},
        {"job_id": JOB, "thread_id": "t-2"},
        {"expires_at": NOW},
        {"revoked_at": NOW},
        {"condition": "args.amount < 30"},
    ],
)
def test_one_that_is_about_something_else_does_nothing(verdict: Verdict, changes: dict[str, Any]) -> None:
    assert judge_standing(REVIEW, [standing(verdict, **changes)], CALL, NOW).judgement is REVIEW


@pytest.mark.parametrize("verdict", [Verdict.allow, Verdict.deny])
@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": JOB, "expires_at": None},
        {"thread_id": "t-1"},
        {"job_id": JOB, "thread_id": "t-1"},
        {"condition": "args.amount <= 30 && job.thread == 't-1'"},
    ],
)
def test_one_that_is_about_this_call(verdict: Verdict, changes: dict[str, Any]) -> None:
    assert judge_standing(REVIEW, [standing(verdict, **changes)], CALL, NOW).judgement.verdict is verdict


@pytest.mark.parametrize("condition", ["args.sum < 30", "args.amount", "args."])
def test_a_condition_that_cannot_be_evaluated_never_lets_a_call_run(condition: str) -> None:
    assert judge_standing(REVIEW, [standing(condition=condition)], CALL, NOW).judgement is REVIEW
    denied = judge_standing(REVIEW, [standing(Verdict.deny, condition=condition)], CALL, NOW)
    assert denied.judgement.verdict is Verdict.deny


@pytest.mark.parametrize("condition", [None, "true"])
def test_unreadable_arguments_are_never_allowed(condition: str | None) -> None:
    assert judge_standing(REVIEW, [standing(condition=condition)], UNREADABLE, NOW).judgement is REVIEW
    denied = judge_standing(REVIEW, [standing(Verdict.deny, condition=condition)], UNREADABLE, NOW)
    assert denied.judgement.verdict is Verdict.deny


GRANT = Grant(UUID(int=5), ("refund",), "args.amount <= 29")
WORTH_NOTHING = {
    "revoked": replace(RITA, revoked=True),
    "no right to stand": replace(RITA, rights=frozenset({Right.review})),
    "no right to decide": replace(RITA, rights=frozenset({Right.standing})),
    "out of the group": replace(RITA, groups=frozenset({"legal"})),
    "limited to less": replace(RITA, limited=True, grants=(GRANT,)),
    "limited to nothing": replace(RITA, limited=True),
    "who submitted the job": replace(RITA, name="shop"),
    "a service": replace(RITA, kind=PrincipalKind.service),
    "a delegate": replace(RITA, groups=frozenset(), delegations=(Delegation(Grant(UUID(int=6), ("*",)), RITA),)),
}


@pytest.mark.parametrize("creator", WORTH_NOTHING.values(), ids=WORTH_NOTHING)
def test_an_allowance_is_worth_what_its_creator_may_decide_now(creator: Principal) -> None:
    assert judge_standing(REVIEW, [standing(created_by=creator)], CALL, NOW).judgement is REVIEW
    # To refuse takes no authority over the call: it opens nothing.
    denied = judge_standing(REVIEW, [standing(Verdict.deny, created_by=creator)], CALL, NOW)
    assert denied.judgement.verdict is Verdict.deny


def test_a_limited_creator_allows_within_the_limit() -> None:
    creator = replace(RITA, limited=True, grants=(replace(GRANT, condition="args.amount <= 30"),))
    assert judge_standing(REVIEW, [standing(created_by=creator)], CALL, NOW).judgement.verdict is Verdict.allow


@pytest.mark.parametrize("more", [{"approvals": 2}, {"edits_need_another": True}])
def test_one_voice_is_no_substitute_for_two(more: dict[str, Any]) -> None:
    judgement = replace(REVIEW, **more)
    assert judge_standing(judgement, [ALLOW, standing(number=3)], CALL, NOW).judgement is judgement
    assert judge_standing(judgement, [DENY], CALL, NOW).judgement.verdict is Verdict.deny
