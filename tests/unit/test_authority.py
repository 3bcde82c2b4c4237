"""Who may decide which call, of their own and in the place of others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.authority import (
    Authority,
    CallFacts,
    Delegation,
    Grant,
    Principal,
    PrincipalKind,
    Right,
    authority_over,
    may_decide,
    may_read_job,
    may_reveal,
    require_reviewer,
    seen_as,
    still_holds,
)
from signoff.domain.errors import BeyondAuthority, NotAReviewer, SignoffError, SubmitterMayNotDecide

NOW = datetime(2030, 1, 1, tzinfo=UTC)
REVIEWERS = ("finance", "@dana")


def person(name: str, *groups: str, **changes: Any) -> Principal:
    who = Principal(name, PrincipalKind.person, frozenset(groups), frozenset({Right.review}))
    return replace(who, **changes)


def grant(*tools: str, condition: str | None = None, ends_in: float | None = None) -> Grant:
    ends = None if ends_in is None else NOW + timedelta(seconds=ends_in)
    return Grant(UUID(int=1), tools or ("*",), condition, ends)


def delegated(delegator: Principal, given: Grant | None = None) -> Delegation:
    return Delegation(given or grant(ends_in=60), delegator)


def call(amount: Any = 30, submitted_by: str = "shop", **changes: Any) -> CallFacts:
    return replace(CallFacts("refund", {"amount": amount}, {"submitted_by": submitted_by}, "test"), **changes)


UNREADABLE = call(args=None)
RITA = person("rita", "finance")
LIMITED = replace(RITA, limited=True)

MAY = {
    "one of the group": (RITA, call()),
    "named by the rule": (person("dana"), call()),
    "limited, and a grant covers it": (
        replace(LIMITED, grants=(grant("ref*", condition="args.amount <= 30"),)),
        call(),
    ),
    "one of two grants": (replace(LIMITED, grants=(grant("mail"), grant("refund"))), call()),
    "unreadable, and no condition": (replace(LIMITED, grants=(grant("refund"),)), UNREADABLE),
}
MAY_NOT = {
    "another group": (person("sam", "legal"), call(), NotAReviewer),
    "a group of the person's name": (person("sam", "dana"), call(), NotAReviewer),
    "a person of the group's name": (person("finance"), call(), NotAReviewer),
    "revoked": (replace(RITA, revoked=True), call(), NotAReviewer),
    "without the right": (replace(RITA, rights=frozenset(Right) - {Right.review}), call(), NotAReviewer),
    "a service": (replace(RITA, kind=PrincipalKind.service), call(), NotAReviewer),
    "the submitter": (RITA, call(submitted_by="rita"), SubmitterMayNotDecide),
    "limited to nothing": (LIMITED, call(), BeyondAuthority),
    "another tool": (replace(LIMITED, grants=(grant("refunds"),)), call(), BeyondAuthority),
    "over the limit": (replace(LIMITED, grants=(grant(condition="args.amount <= 30"),)), call(31), BeyondAuthority),
    "can't be evaluated": (replace(LIMITED, grants=(grant(condition="args.sum <= 30"),)), call(), BeyondAuthority),
    "unreadable": (replace(LIMITED, grants=(grant(condition="true"),)), UNREADABLE, BeyondAuthority),
    "no condition at all": (replace(LIMITED, grants=(grant(condition="args."),)), call(), BeyondAuthority),
    "ended": (replace(LIMITED, grants=(grant(ends_in=0),)), call(), BeyondAuthority),
}


@pytest.mark.parametrize(("who", "about"), MAY.values(), ids=MAY)
def test_who_may(who: Principal, about: CallFacts) -> None:
    authority = authority_over(who, REVIEWERS, about, now=NOW)
    assert authority == Authority(who.name)
    assert still_holds(authority, who, REVIEWERS, about, NOW)


@pytest.mark.parametrize(("who", "about", "error"), MAY_NOT.values(), ids=MAY_NOT)
def test_who_may_not(who: Principal, about: CallFacts, error: type[SignoffError]) -> None:
    with pytest.raises(error):
        authority_over(who, REVIEWERS, about, now=NOW)
    assert not still_holds(Authority(who.name), who, REVIEWERS, about, NOW)


@pytest.mark.parametrize(
    "condition",
    ["tool == 'refund'", "environment == 'test'", "job.submitted_by == 'shop'", "destination == 'x'", "unseen.a == 1"],
)
def test_what_a_limit_can_look_at(condition: str) -> None:
    who = replace(LIMITED, grants=(grant(condition=condition),))
    about = call(destination="x", unseen={"a": 1})
    assert authority_over(who, REVIEWERS, about, now=NOW).reviewer == "rita"
    with pytest.raises(BeyondAuthority):
        authority_over(replace(who, grants=(grant(condition=f"!({condition})"),)), REVIEWERS, about, now=NOW)


# --- in the place of others --------------------------------------------------------------------------------

RAVI = person("ravi", "legal")

DELEGATES_NOTHING = {
    "a delegator who is revoked": delegated(replace(RITA, revoked=True)),
    "a delegator without the right": delegated(replace(RITA, rights=frozenset())),
    "a delegator of another group": delegated(person("sam", "legal")),
    "a delegator limited to less": delegated(replace(LIMITED, grants=(grant(condition="args.amount < 30"),))),
    "a delegator who submitted the job": delegated(person("shop", "finance")),
    "an end that has come": delegated(RITA, grant(ends_in=0)),
    "another tool": delegated(RITA, grant("mail", ends_in=60)),
    "too large an amount": delegated(RITA, grant(condition="args.amount < 30", ends_in=60)),
}


def test_a_delegate_decides_and_both_names_are_known() -> None:
    who = replace(RAVI, delegations=(delegated(person("sam", "legal")), delegated(RITA)))
    authority = authority_over(who, REVIEWERS, call(), now=NOW)
    assert authority == Authority("ravi", "rita")
    assert authority.people == {"ravi", "rita"}
    assert still_holds(authority, who, REVIEWERS, call(), NOW)
    assert not still_holds(authority, replace(who, delegations=()), REVIEWERS, call(), NOW)
    assert not still_holds(authority, None, REVIEWERS, call(), NOW)
    assert not still_holds(Authority("ravi"), who, REVIEWERS, call(), NOW)


@pytest.mark.parametrize("delegation", DELEGATES_NOTHING.values(), ids=DELEGATES_NOTHING)
def test_a_delegation_that_is_worth_nothing(delegation: Delegation) -> None:
    who = replace(RAVI, delegations=(delegation,))
    with pytest.raises(NotAReviewer):
        authority_over(who, REVIEWERS, call(), now=NOW)
    assert not still_holds(Authority("ravi", delegation.delegator.name), who, REVIEWERS, call(), NOW)


@pytest.mark.parametrize("changes", [{"revoked": True}, {"rights": frozenset()}, {"kind": PrincipalKind.service}])
def test_a_delegate_has_to_be_a_reviewer(changes: dict[str, Any]) -> None:
    who = replace(RAVI, delegations=(delegated(RITA),), **changes)
    with pytest.raises(NotAReviewer):
        authority_over(who, REVIEWERS, call(), now=NOW)
    with pytest.raises(NotAReviewer):
        require_reviewer(who, REVIEWERS)


def test_a_delegate_who_submitted_the_job_does_not_decide() -> None:
    who = replace(RAVI, delegations=(delegated(RITA),))
    with pytest.raises(SubmitterMayNotDecide):
        authority_over(who, REVIEWERS, call(submitted_by="ravi"), now=NOW)


def test_it_goes_one_step() -> None:
    between = person("bo", delegations=(delegated(RITA),))
    with pytest.raises(NotAReviewer):
        authority_over(replace(RAVI, delegations=(delegated(between),)), REVIEWERS, call(), now=NOW)


def test_ones_own_authority_comes_first_and_a_delegation_fills_its_gaps() -> None:
    who = replace(LIMITED, name="ravi", grants=(grant(condition="args.amount <= 30"),), delegations=(delegated(RITA),))
    assert authority_over(who, REVIEWERS, call(30), now=NOW).on_behalf_of is None
    assert authority_over(who, REVIEWERS, call(31), now=NOW).on_behalf_of == "rita"


def test_who_has_spoken_delegates_no_second_voice() -> None:
    who = replace(RAVI, delegations=(delegated(RITA), delegated(person("uma", "finance"))))
    found = authority_over(who, REVIEWERS, call(), now=NOW, spoken=frozenset({"rita"}))
    assert found.on_behalf_of == "uma"
    with pytest.raises(NotAReviewer):
        authority_over(who, REVIEWERS, call(), now=NOW, spoken=frozenset({"rita", "uma"}))


# --- seeing -------------------------------------------------------------------------------------------------


def test_seeing_is_a_right_of_its_own_and_deciding_includes_it() -> None:
    assert seen_as(RITA) == ["@rita", "finance"]
    assert seen_as(replace(RITA, rights=frozenset({Right.see}))) == ["@rita", "finance"]
    assert seen_as(replace(RITA, rights=frozenset({Right.operate, Right.submit}))) == []
    assert seen_as(replace(RITA, revoked=True)) == []


def test_a_delegate_sees_what_the_delegator_is_asked() -> None:
    who = replace(RAVI, delegations=(delegated(RITA),))
    assert seen_as(who) == ["@ravi", "@rita", "finance", "legal"]
    assert seen_as(replace(who, rights=frozenset({Right.see}))) == ["@ravi", "legal"]
    assert may_read_job(who, "shop", {"finance"})
    assert not may_read_job(RAVI, "shop", {"finance"})


def test_revealing_is_a_right_of_its_own() -> None:
    assert not may_reveal(replace(RITA, rights=frozenset(Right) - {Right.reveal}))
    assert may_reveal(replace(RITA, rights=frozenset({Right.reveal})))
    assert not may_reveal(replace(RITA, rights=frozenset({Right.reveal}), revoked=True))


# --- whoever it is, and whatever they were given -------------------------------------------------------------

NAMES = st.sampled_from(["rita", "ravi", "dana", "shop"])
GRANTS = st.builds(
    grant,
    st.sampled_from(["refund", "ref*", "mail", "*"]),
    condition=st.sampled_from([None, "args.amount <= 30", "args.amount > 30", "args.nothing", "args."]),
    ends_in=st.sampled_from([None, -1.0, 0.0, 1.0]),
)
LONE = st.builds(
    Principal,
    NAMES,
    st.sampled_from(PrincipalKind),
    st.frozensets(st.sampled_from(["finance", "legal"])),
    st.frozensets(st.sampled_from(Right)),
    revoked=st.booleans(),
    limited=st.booleans(),
    grants=st.lists(GRANTS, max_size=2).map(tuple),
)
ANYBODY = st.builds(
    lambda who, delegations: replace(who, delegations=tuple(delegations)),
    LONE,
    st.lists(
        st.builds(
            Delegation, GRANTS, st.builds(lambda a, b: replace(a, delegations=(b,)), LONE, st.builds(delegated, LONE))
        ),
        max_size=2,
    ),
)
CALLS = st.builds(call, st.sampled_from([30, 31, "x"]), NAMES)


def decides(who: Principal, about: CallFacts) -> bool:
    """The promise in other words than the code's."""
    covered = not who.limited or any(
        one.covers(about, NOW) and (one.expires_at is None or one.expires_at > NOW) for one in who.grants
    )
    asked = "finance" in who.groups or who.name == "dana"
    able = who.kind == "person" and "review" in who.rights and not who.revoked
    return able and asked and covered and who.name != about.job["submitted_by"]


@given(ANYBODY, CALLS)
def test_nobody_decides_without_authority(who: Principal, about: CallFacts) -> None:
    try:
        authority = authority_over(who, REVIEWERS, about, now=NOW)
    except (NotAReviewer, BeyondAuthority, SubmitterMayNotDecide):
        assert not decides(who, about)
        return
    assert who.kind == "person"
    assert "review" in who.rights
    assert not who.revoked
    assert who.name != about.submitted_by
    if authority.on_behalf_of is None:
        assert decides(who, about)
    else:
        given = [one for one in who.delegations if one.delegator.name == authority.on_behalf_of]
        assert any(decides(one.delegator, about) and one.grant.covers(about, NOW) for one in given)
    assert still_holds(authority, who, REVIEWERS, about, NOW)


@given(ANYBODY, ANYBODY, CALLS)
def test_what_was_decided_holds_later_only_if_it_could_be_decided_then(
    who: Principal, later: Principal, about: CallFacts
) -> None:
    try:
        authority = authority_over(who, REVIEWERS, about, now=NOW)
    except SignoffError:
        return
    if still_holds(authority, later, REVIEWERS, about, NOW):
        assert later.name == who.name
        assert authority_over(later, REVIEWERS, about, now=NOW).reviewer == authority.reviewer


def test_a_group_that_is_written_like_a_person_is_not_that_person() -> None:
    impostor = Principal("ivan", PrincipalKind.person, frozenset({"@rita"}), frozenset({Right.review}))
    assert not may_decide(impostor, {"@rita"})
    assert seen_as(impostor) == ["@ivan"]
