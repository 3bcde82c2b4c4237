"""Which calls a policy calls high-risk."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.domain.errors import PolicyInvalid
from signoff.domain.policy import Policy, allow, deny, review
from signoff.domain.policy_file import parse_policy

POLICY = Policy(
    [
        review("pay", when="args.amount > 100", reviewers=["finance"], high_risk=True),
        allow("pay", when="args.amount > 50", reviewers=["finance"]),
        deny("wipe", high_risk=True),
        review("pay", reviewers=["finance"]),
    ]
)


@pytest.mark.parametrize(
    ("tool", "args", "high"),
    [
        ("pay", {"amount": 101}, True),
        ("pay", {"amount": 60}, False),
        ("pay", {"amount": 1}, False),
        ("wipe", {}, True),
        ("pay", {}, True),  # nobody can say how much
        ("post", {}, True),  # no rule is about it
    ],
)
def test_the_rule_that_takes_the_call_says_so_and_what_none_can_judge_is(
    tool: str, args: dict[str, Any], high: bool
) -> None:
    assert POLICY.judge(tool, args, job={}, environment="").high_risk is high


def test_a_condition_without_an_answer_is_high_risk_whatever_its_rule_says() -> None:
    policy = Policy([review("pay", when="args.amount > 100", reviewers=["finance"]), allow("pay")])
    assert policy.judge("pay", {"amount": "much"}, job={}, environment="").high_risk
    assert not policy.judge("pay", {"amount": 200}, job={}, environment="").high_risk


def test_it_is_kept_and_changes_no_digest_where_it_is_not_set() -> None:
    assert Policy.from_dict(POLICY.to_dict()) == POLICY
    assert "high_risk" not in allow("a").to_dict()
    assert Policy([allow("a", high_risk=True)]).digest != Policy([allow("a")]).digest


def test_it_is_written_in_a_file() -> None:
    text = '[[rules]]\ntool = "pay"\nverdict = "allow"\nhigh_risk = '
    assert parse_policy(text + "true").rules[0].high_risk
    with pytest.raises(PolicyInvalid, match="high_risk: must be true or false"):
        parse_policy(text + '"yes"')
