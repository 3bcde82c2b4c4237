"""Whether a call may leave now: every guard alone, and all of them together for any mix of votes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.authority import Authority, CallFacts, Delegation, Grant, Principal, PrincipalKind, Right
from signoff.domain.canonical import call_digest
from signoff.domain.effects import EffectClass
from signoff.domain.policy import DecisionType, Policy, Rule, Verdict, allow, deny, review
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import ItemStatus
from signoff.domain.standing import StandingApproval
from signoff.domain.verdicts import AtDeadline
from signoff.infra.postgres.effects_examined import Approval, AskedBefore, Vote
from signoff.workers.approving import Case, Fine, ReviewAgain, Revoked, by_decisions, time_allows, without_decision

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ARGS = {"to": "ada", "amount": 30}
JOB = {"id": "j", "agent": "desk", "thread": "t", "submitted_by": "shop", "labels": {}}
FINANCE = review("pay", reviewers=["finance"])


def person(name: str, *groups: str, **fields: Any) -> Principal:
    rights = frozenset({Right.review, Right.standing})
    return Principal(name, PrincipalKind.person, frozenset(groups), rights, **fields)


RITA, RAVI, DORA = person("rita", "finance"), person("ravi", "finance"), person("dora", "directors")


def case(*rules: Rule, effect_class: EffectClass = EffectClass.opaque) -> Case:
    facts = CallFacts("pay", ARGS, JOB, "test")
    judgement = Policy(rules).judge("pay", ARGS, job=JOB, environment="test")
    return Case("op", call_digest("pay", ARGS), facts, judgement, effect_class, NOW)


def vote(who: Principal, **changes: Any) -> Vote:
    plain = Vote(
        decision_id=uuid4(),
        type=DecisionType.approve,
        operation_id="op",
        digest=call_digest("pay", ARGS),
        authority=Authority(who.name),
        decided_at=NOW - timedelta(minutes=5),
        who=who,
    )
    return replace(plain, **changes)


def approval(*votes: Vote, **changes: Any) -> Approval:
    return replace(Approval(votes, approvals=1, reviewers=("finance",), valid_for_seconds=None), **changes)


def grant(**changes: Any) -> Grant:
    return replace(Grant(UUID(int=1), ("pay",)), **changes)


# --- by decisions ------------------------------------------------------------------------------------------------

LIMITED = replace(RITA, limited=True, grants=(grant(condition="args.amount <= 50"),))
NARROWED = replace(RITA, limited=True, grants=(grant(condition="args.amount <= 20"),))
DELEGATE = replace(person("dan"), delegations=(Delegation(grant(), RITA),))
FOR_RITA = vote(DELEGATE, authority=Authority("dan", "rita"))
TWO = {"approvals": 2}
BLIND = deny("pay", when="args.sum > 1000", reviewers=["finance"])

FINE: list[tuple[str, Approval, tuple[Rule, ...]]] = [
    ("one of those who were asked", approval(vote(RITA)), (FINANCE,)),
    ("the policy asks nobody any more", approval(vote(RITA)), (allow("pay"),)),
    ("no rule could look into it, and nobody edited it", approval(vote(RITA)), (BLIND,)),
    ("within a grant", approval(vote(LIMITED)), (FINANCE,)),
    ("in the place of somebody", approval(FOR_RITA), (FINANCE,)),
    ("two people", approval(vote(RITA), vote(RAVI), **TWO), (FINANCE,)),
    ("two, one of them in a third one's place", approval(vote(RAVI), FOR_RITA, **TWO), (FINANCE,)),
    (
        "two, as the policy wants by now",
        approval(vote(RITA), vote(RAVI)),
        (review("pay", reviewers=["finance"], approvals=2),),
    ),
    (
        "escalated, and the rule says so",
        approval(vote(DORA), reviewers=("directors",)),
        (review("pay", reviewers=["finance"], deadline_seconds=60, at_deadline="escalate", escalate_to=["directors"]),),
    ),
    ("young enough", approval(vote(RITA), valid_for_seconds=301.0), (FINANCE,)),
    ("more than enough, one of them lost", approval(vote(RITA), vote(replace(RAVI, revoked=True))), (FINANCE,)),
]

REVOKED: list[tuple[str, Approval, tuple[Rule, ...], str]] = [
    ("denied", approval(vote(RITA)), (deny("pay"),), "the policy now denies it"),
    ("another digest", approval(vote(RITA, digest="other")), (FINANCE,), "covers other arguments"),
    ("another operation", approval(vote(RITA, operation_id="other")), (FINANCE,), "covers other arguments"),
    ("no decision", approval(), (FINANCE,), "covers other arguments"),
    ("revoked person", approval(vote(replace(RITA, revoked=True))), (FINANCE,), "rita, who approved it, may no longer"),
    ("left the group", approval(vote(replace(RITA, groups=frozenset()))), (FINANCE,), "may no longer decide"),
    ("right taken", approval(vote(replace(RITA, rights=frozenset({Right.see})))), (FINANCE,), "may no longer decide"),
    ("narrowed", approval(vote(NARROWED)), (FINANCE,), "may no longer decide"),
    ("narrowed, though the policy allows it", approval(vote(NARROWED)), (allow("pay"),), "may no longer decide"),
    ("the submitter", approval(vote(person("shop", "finance"))), (FINANCE,), "may no longer decide"),
    ("delegation taken back", approval(replace(FOR_RITA, who=person("dan"))), (FINANCE,), "may no longer decide"),
    (
        "delegator revoked",
        approval(
            replace(FOR_RITA, who=replace(DELEGATE, delegations=(Delegation(grant(), replace(RITA, revoked=True)),)))
        ),
        (FINANCE,),
        "may no longer decide",
    ),
    ("too old", approval(vote(RITA), valid_for_seconds=299.0), (FINANCE,), "the approval was valid until 2026-03-01"),
    ("one of two lost", approval(vote(RITA), vote(replace(RAVI, revoked=True)), **TWO), (FINANCE,), "ravi, who"),
    (
        "one of two too old",
        approval(vote(RITA), vote(RAVI, decided_at=NOW - timedelta(hours=1)), **TWO, valid_for_seconds=600.0),
        (FINANCE,),
        "was valid until",
    ),
    ("one person twice", approval(vote(RITA), vote(RITA), **TWO), (allow("pay"),), "it has 1 of 2 approvals"),
    ("one voice twice", approval(vote(RITA), FOR_RITA, **TWO), (allow("pay"),), "it has 1 of 2 approvals"),
]

MORE = review("pay", reviewers=["finance"], approvals=2)
OTHERS = review("pay", reviewers=["directors"])
YOUNGER = review("pay", reviewers=["finance"], approval_valid_for_seconds=60)
ANOTHER = review("pay", reviewers=["finance"], edits_need_another=True)
AGAIN: list[tuple[str, Approval, Rule, int]] = [
    ("more people", approval(vote(RITA)), MORE, 2),
    ("other people", approval(vote(RITA)), OTHERS, 1),
    (
        "more people than two",
        approval(vote(RITA), vote(RAVI), **TWO),
        review("pay", reviewers=["finance"], approvals=3),
        3,
    ),
    ("other people, and two as before", approval(vote(RITA), vote(RAVI), **TWO), OTHERS, 2),
    ("younger decisions", approval(vote(RITA)), YOUNGER, 1),
    ("another beside the editor", approval(vote(RITA, type=DecisionType.edit)), ANOTHER, 2),
    ("... where no rule could look into the call", approval(vote(RITA, type=DecisionType.edit)), BLIND, 2),
    ("one voice twice", approval(vote(RITA), FOR_RITA, **TWO), FINANCE, 2),
]


@pytest.mark.parametrize(("given_", "rules"), [row[1:] for row in FINE], ids=[row[0] for row in FINE])
def test_what_still_counts_may_leave(given_: Approval, rules: tuple[Rule, ...]) -> None:
    assert isinstance(by_decisions(case(*rules), given_), Fine)


@pytest.mark.parametrize(("given_", "rules", "words"), [row[1:] for row in REVOKED], ids=[row[0] for row in REVOKED])
def test_what_does_not_count_any_more_is_revoked(given_: Approval, rules: tuple[Rule, ...], words: str) -> None:
    answer = by_decisions(case(*rules), given_)
    assert isinstance(answer, Revoked)
    assert words in answer.reason


@pytest.mark.parametrize(("given_", "rule", "needed"), [row[1:] for row in AGAIN], ids=[row[0] for row in AGAIN])
def test_what_a_tightened_policy_wants_more_of_goes_back_to_review(given_: Approval, rule: Rule, needed: int) -> None:
    answer = by_decisions(case(rule), given_)
    assert isinstance(answer, ReviewAgain)
    assert answer.approvals == needed
    assert answer.reason.startswith("the policy was tightened: ")


def test_nobody_is_asked_where_the_policy_names_nobody() -> None:
    asked = case(OTHERS)
    nobody = replace(asked, judgement=replace(asked.judgement, reviewers=()))
    for answer in (by_decisions(nobody, approval(vote(RITA))), without_decision(nobody, ())):
        assert isinstance(answer, Revoked)
        assert "names no reviewers" in answer.reason


PEOPLE = {"rita": RITA, "ravi": RAVI, "revoked": replace(person("rob", "finance"), revoked=True), "dora": DORA}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(PEOPLE)), st.booleans(), st.booleans()), max_size=5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(Verdict),
)
def test_it_leaves_only_by_as_many_people_as_it_needs_who_may_decide(
    cast: list[tuple[str, bool, bool]], asked: int, wanted: int, verdict: Verdict
) -> None:
    rules = {
        Verdict.allow: allow("pay"),
        Verdict.deny: deny("pay"),
        Verdict.review: review("pay", reviewers=["finance"], approvals=wanted),
    }
    votes = [
        vote(
            PEOPLE[name],
            digest=call_digest("pay", ARGS) if covers else "other",
            decided_at=NOW - timedelta(minutes=1 if young else 60),
        )
        for name, covers, young in cast
    ]
    good = {name for name, covers, young in cast if covers and young and name in ("rita", "ravi")}
    needed = max(asked, wanted if verdict is Verdict.review else 1)
    answer = by_decisions(case(rules[verdict]), approval(*votes, approvals=asked, valid_for_seconds=600.0))
    assert isinstance(answer, Fine) == (verdict is not Verdict.deny and len(good) >= needed)


# --- without a decision ------------------------------------------------------------------------------------------


def standing(verdict: Verdict, **changes: Any) -> StandingApproval:
    plain = StandingApproval(
        id=UUID(int=7),
        agent="desk",
        tool="pay",
        verdict=verdict,
        expires_at=NOW + timedelta(hours=1),
        created_by=RITA,
        created_at=NOW,
    )
    return replace(plain, **changes)


def test_a_rule_allows_or_denies_or_wants_a_review() -> None:
    assert without_decision(case(allow("pay")), ()) == Fine(case(allow("pay")).judgement)
    denied = without_decision(case(deny("pay")), (standing(Verdict.allow),))
    assert isinstance(denied, Revoked)
    again = without_decision(case(MORE), ())
    assert isinstance(again, ReviewAgain)
    assert again.approvals == 2


def test_a_standing_approval_stands_in_for_a_review_and_for_nothing_else() -> None:
    allowed = without_decision(case(FINANCE), (standing(Verdict.allow),))
    assert isinstance(allowed, Fine)
    assert allowed.standing_id == UUID(int=7)
    assert isinstance(without_decision(case(FINANCE), (standing(Verdict.deny),)), Revoked)
    for lapsed in (standing(Verdict.allow, revoked_at=NOW), standing(Verdict.allow, expires_at=NOW)):
        assert isinstance(without_decision(case(FINANCE), (lapsed,)), ReviewAgain)


# --- time --------------------------------------------------------------------------------------------------------

BY_TIME = review("pay", reviewers=["finance"], deadline_seconds=60, at_deadline="approve")
EXPIRED = AskedBefore(ItemStatus.expired, 1, ReviewTerms(at_deadline=AtDeadline.approve), None, None, None, None)
READS = case(BY_TIME, effect_class=EffectClass.read)


def test_time_allows_what_only_reads_if_the_rule_said_so_and_says_so_still() -> None:
    assert time_allows(READS, EXPIRED)


@pytest.mark.parametrize("effect_class", [one for one in EffectClass if one is not EffectClass.read])
def test_time_allows_nothing_that_does_more_than_read(effect_class: EffectClass) -> None:
    assert not time_allows(replace(READS, effect_class=effect_class), EXPIRED)


@pytest.mark.parametrize(
    "before",
    [
        *(replace(EXPIRED, status=status) for status in ItemStatus if status is not ItemStatus.expired),
        replace(EXPIRED, revision=2),
        replace(EXPIRED, terms=ReviewTerms()),
    ],
)
def test_time_allows_nothing_that_it_was_not_to_allow_when_it_was_asked_about(before: AskedBefore) -> None:
    assert not time_allows(READS, before)


@pytest.mark.parametrize("rule", [FINANCE, deny("pay"), allow("pay")])
def test_time_allows_nothing_that_the_policy_does_not_leave_to_it_now(rule: Rule) -> None:
    assert not time_allows(case(rule, effect_class=EffectClass.read), EXPIRED)
