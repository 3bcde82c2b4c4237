from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain import DecisionType, Judgement, Policy, Rule, Verdict, allow, deny, review
from signoff.domain.errors import PolicyInvalid

JOB = {"id": "1", "agent": "support", "thread": "t", "submitted_by": "shop", "labels": {"tier": "gold"}}


def judge(policy: Policy, tool: str, **args: Any) -> Judgement:
    return policy.judge(tool, args, job=JOB, environment="test")


def problems(error: PolicyInvalid) -> list[str]:
    return [f"{problem['where']}: {problem['message']}" for problem in error.details["problems"]]


def policy() -> Policy:
    return Policy(
        rules=[
            allow("lookup_*"),
            review(
                "refund",
                name="big refunds",
                when="args.amount > 100",
                reviewers=["finance"],
                decisions=["approve", "reject"],
                deadline_seconds=3600,
                approval_valid_for_seconds=60,
                description="Money leaves our account",
            ),
            allow("refund", when="args.amount >= 0"),
            deny("delete_?"),
        ],
        fallback_reviewers=["leads"],
    )


def test_the_first_rule_that_matches_decides() -> None:
    assert judge(policy(), "lookup_order").verdict is Verdict.allow
    assert judge(policy(), "refund", amount=50).verdict is Verdict.allow
    assert judge(policy(), "refund", amount=100.5).verdict is Verdict.review
    assert judge(policy(), "delete_x").verdict is Verdict.deny


def test_a_judgement_carries_what_a_review_needs() -> None:
    assert judge(policy(), "refund", amount=101) == Judgement(
        verdict=Verdict.review,
        rule="big refunds",
        policy_digest=policy().digest,
        reason="'big refunds' says review",
        decisions=(DecisionType.approve, DecisionType.reject),
        reviewers=("finance",),
        deadline_seconds=3600.0,
        approval_valid_for_seconds=60.0,
        description="Money leaves our account",
    )


def test_a_rule_without_a_name_is_called_by_position_and_tool() -> None:
    assert judge(policy(), "refund", amount=5).rule == "rule 3 (refund)"


@pytest.mark.parametrize("tool", ["", "Lookup_order", "xlookup_", "delete_", "delete_xy", "refund\n", "nothing"])
def test_what_no_rule_matches_is_denied(tool: str) -> None:
    judgement = judge(policy(), tool, amount=5)
    assert (judgement.verdict, judgement.rule) == (Verdict.deny, "no rule")
    assert judgement.reason == "no rule of the policy allows it"
    assert judge(Policy(), tool).verdict is Verdict.deny


def test_a_condition_that_can_not_be_evaluated_is_reviewed_by_the_rule_s_reviewers() -> None:
    judgement = judge(policy(), "refund", amount="101")
    assert (judgement.verdict, judgement.reviewers) == (Verdict.review, ("finance",))
    assert judgement.decisions == (DecisionType.approve, DecisionType.reject)
    assert "can't be evaluated" in judgement.reason


@pytest.mark.parametrize("rule", [allow("refund", when="args.amount < 5"), deny("refund", when="args.amount < 5")])
def test_or_else_by_the_fallback_reviewers(rule: Rule) -> None:
    judgement = judge(Policy([rule, allow("*")], ["leads"]), "refund")
    assert (judgement.verdict, judgement.reviewers) == (Verdict.review, ("leads",))
    assert "'amount' is missing" in judgement.reason


def test_conditions_see_job_and_environment() -> None:
    mine = Policy([review("*", when="job.labels.tier == 'gold' && environment == 'test'", reviewers=["a"])])
    assert judge(mine, "x").verdict is Verdict.review
    assert mine.judge("x", {}, job=JOB, environment="production").verdict is Verdict.deny


def test_labels_of_a_job_are_looked_at_as_strictly_as_arguments() -> None:
    mine = Policy([review("*", when="job.labels.n > 5", reviewers=["a"]), allow("*")])
    assert mine.judge("x", {}, job={"labels": {"n": math.nan}}, environment="").verdict is Verdict.review


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
)
CONDITIONS = [
    "args.x > 5",
    "args.x == 'a' || args.y > 1",
    "args.x.all(i, i > 1)",
    "size(args.x) > 1",
    "args.x / args.y > 1",
    "args.x ? true : false",
    "args.x",
    "has(args.x.y) && args.x.y",
    "timestamp(args.x) > timestamp(args.y)",
    "args.x.matches(args.y)",
    "args[args.x] == 1",
    "-args.x > 0",
]


@given(st.sampled_from(CONDITIONS), st.dictionaries(st.sampled_from(["x", "y"]) | st.text(), ODD, max_size=4))
def test_judging_never_raises_and_never_allows_by_a_condition_without_an_answer(source: str, args: Any) -> None:
    plain = Policy([allow("t", when=source)], ["leads"]).judge("t", args, job=JOB, environment="")
    negated = Policy([allow("t", when=f"!({source})")], ["leads"]).judge("t", args, job=JOB, environment="")
    # Either the condition has an answer, and exactly one of the two allows; or it has none, and both ask a person.
    assert sorted([plain.verdict, negated.verdict]) in ([Verdict.allow, Verdict.deny], [Verdict.review, Verdict.review])


def test_the_plain_form_survives_json_with_its_digest() -> None:
    stored = json.loads(json.dumps(policy().to_dict()))
    assert Policy.from_dict(stored) == policy()
    assert Policy.from_dict(stored).digest == policy().digest
    assert Policy.from_dict(Policy().to_dict()) == Policy()


def test_a_store_may_rewrite_a_whole_number_of_seconds() -> None:
    stored = policy().to_dict()
    for seconds in (3600, 3600.0):
        stored["rules"][1]["deadline_seconds"] = seconds
        assert Policy.from_dict(stored).digest == policy().digest


def test_the_digest_changes_with_the_meaning() -> None:
    first, second, third, last = policy().rules
    changed = [
        Policy([first, second, third, last], ["others"]),
        Policy([second, third, last], ["leads"]),
        Policy([first, third, second, last], ["leads"]),
        Policy([first, second, third, deny("delete_*")], ["leads"]),
    ]
    assert len({policy().digest, *(each.digest for each in changed)}) == 5


def test_a_policy_can_be_sent_to_another_process_after_use() -> None:
    mine = policy()
    judge(mine, "refund", amount=5)
    assert pickle.loads(pickle.dumps(mine)) == mine
