from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signoff.domain import Policy, Rule, Verdict, allow, deny, review
from signoff.domain.errors import PolicyInvalid
from signoff.domain.tool_patterns import covers, matches


def problems(call: Callable[[], object]) -> list[str]:
    with pytest.raises(PolicyInvalid) as caught:
        call()
    found = [f"{problem['where']}: {problem['message']}" for problem in caught.value.details["problems"]]
    assert caught.value.message.splitlines()[1:] == found
    return found


def rule(**changes: Any) -> Rule:
    return Rule(**{"tool": "refund", "verdict": Verdict.review, "reviewers": ("finance",), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "alow"}, "verdict: 'alow' is unknown; did you mean 'allow'?"),
        ({"verdict": "maybe"}, "verdict: 'maybe' is unknown; use one of allow, review, deny"),
        ({"verdict": 3}, "verdict: must be one of allow, review, deny, as text"),
        ({"tool": ""}, "tool: must not be empty"),
        ({"tool": "x[ab]"}, "tool: the wildcards are * and ?; there are no [sets]"),
        ({"tool": "refund "}, "tool: begins or ends with a space"),
        ({"tool": 3}, "tool: must be text"),
        ({"name": " "}, "name: must not be empty"),
        ({"description": "a\0"}, "description: has a NUL or a lone surrogate in it"),
        ({"when": "arg.x > 1"}, "when: the variable 'arg' is unknown; did you mean 'args'?"),
        ({"when": " "}, "when: must not be empty"),
        ({"reviewers": ()}, "reviewers: must not be empty"),
        ({"reviewers": "finance"}, "reviewers: must be a list of words"),
        ({"reviewers": ("a", "")}, "reviewers: '' must not be empty"),
        ({"reviewers": ("a", "a")}, "reviewers: 'a' is named twice"),
        ({"reviewers": ("a", 3)}, "reviewers: must be a list of words"),
        ({"decisions": ("aprove",)}, "decisions: 'aprove' is unknown; did you mean 'approve'?"),
        ({"decisions": ()}, "decisions: must not be empty"),
        ({"decisions": ("edit", "edit")}, "decisions: 'edit' is named twice"),
        ({"deadline_seconds": 0}, "deadline_seconds: must be more than nothing and at most 3650 days"),
        ({"deadline_seconds": float("nan")}, "deadline_seconds: must be more than nothing and at most 3650 days"),
        ({"deadline_seconds": 1e12}, "deadline_seconds: must be more than nothing and at most 3650 days"),
        ({"deadline_seconds": True}, "deadline_seconds: must be a number of seconds"),
        ({"approval_valid_for_seconds": "1h"}, "approval_valid_for_seconds: must be a number of seconds"),
    ],
)
def test_a_wrong_value_is_refused(changes: dict[str, Any], message: str) -> None:
    assert problems(lambda: rule(**changes)) == [f"the rule for {changes.get('tool', 'refund')!r}: {message}"]


def test_all_that_is_wrong_with_a_rule_is_told_at_once() -> None:
    assert len(problems(lambda: rule(verdict="x", when="(", decisions=("y",), deadline_seconds=-1))) == 4


def test_one_group_is_not_taken_for_a_list_of_letters() -> None:
    assert "reviewers: must be a list of words" in problems(lambda: review("refund", reviewers="finance"))[0]
    assert "must be a list of words" in problems(lambda: Policy([], "leads"))[0]


@pytest.mark.parametrize("verdict", [Verdict.allow, Verdict.deny])
def test_settings_of_a_review_that_can_never_be_asked_for(verdict: Verdict) -> None:
    found = problems(lambda: rule(verdict=verdict, deadline_seconds=5, decisions=("edit",)))
    assert [text.split(": ")[1] for text in found] == ["reviewers", "decisions", "deadline_seconds"]
    assert "nobody is ever asked" in found[0]
    assert rule(verdict=verdict, deadline_seconds=5, when="args.x > 1").reviewers == ("finance",)


def test_a_condition_needs_somebody_to_ask() -> None:
    rules = [allow("a", when="args.x > 1"), deny("b", when="args.x > 1", reviewers=["r"])]
    found = problems(lambda: Policy(rules))
    assert len(found) == 1
    assert found[0].startswith("rule 1 (a): when: who is asked if the condition can't be evaluated?")
    Policy(rules, ["leads"])
    Policy(rules[1:])


def test_names_are_unique_made_ones_included() -> None:
    found = problems(
        lambda: Policy([allow("a", name="x"), allow("b", name="x"), allow("c", name="rule 4 (d)"), allow("d")])
    )
    assert found == [
        "x: name: 'x' is the name of rule 1 already",
        "rule 4 (d): name: 'rule 4 (d)' is the name of rule 3 already",
    ]


def test_a_rule_that_is_never_reached_is_refused() -> None:
    found = problems(lambda: Policy([deny("get_*"), allow("get_a"), allow("get_a*"), allow("set_a"), allow("set_a")]))
    assert [text.partition(": tool")[0] for text in found] == ["rule 2 (get_a)", "rule 3 (get_a*)", "rule 5 (set_a)"]
    assert "'rule 1 (get_*)' comes first" in found[0]


def test_a_rule_after_a_condition_or_a_narrower_pattern_is_reached() -> None:
    Policy([deny("a*", when="args.x > 1", reviewers=["r"]), deny("ab"), deny("a?"), deny("a*"), deny("*")])


@pytest.mark.parametrize(
    ("broad", "narrow", "expected"),
    [
        ("*", "a", True),
        ("*", "?", True),
        ("*", "*a*", True),
        ("a*", "a*b", True),
        ("a*", "a", True),
        ("a*b", "a*", False),
        ("*a*", "b*", False),
        ("a?", "ab", True),
        ("a?", "a*", False),
        ("a?", "a", False),
        ("a", "a?", False),
        ("?", "*", False),
        ("A*", "a*", False),
        ("a.c", "abc", False),
    ],
)
def test_which_pattern_is_broader(broad: str, narrow: str, expected: bool) -> None:
    assert covers(broad, narrow) is expected


def test_a_pattern_of_many_stars_is_quick() -> None:
    assert not matches("*" * 50 + "b", "a" * 2000)
    assert not matches("*a" * 20 + "b", "a" * 2000)
    assert matches("a**b", "ab")
    assert matches("*", "a\nb")


def test_the_plain_form_is_checked_as_a_whole() -> None:
    document = {
        "rule": [],
        "rules": [
            {"tool": "a", "verdict": "allow", "wen": "args.x"},
            {"verdict": "review", "deadline": 5},
            {"tool": "a", "verdict": "deny", "fallback_reviewers": []},
        ],
    }
    assert problems(lambda: Policy.from_dict(document)) == [
        "the policy: the key 'rule' is unknown; did you mean 'rules'?",
        "rule 1 (a): the key 'wen' is unknown; did you mean 'when'?",
        "rule 2: the key 'deadline' is unknown; did you mean 'deadline_seconds'?",
        "rule 2: 'tool' is missing",
        "rule 2: reviewers: a review needs at least one group",
        "rule 3 (a): the key 'fallback_reviewers' is unknown; it belongs to the policy: write it above the first rule",
        "rule 3 (a): tool: never reached, 'rule 1 (a)' comes first and takes every such call",
    ]


@pytest.mark.parametrize("rules", [3, {}, [3], "x", None])
def test_rules_of_another_shape_are_refused(rules: Any) -> None:
    assert problems(lambda: Policy.from_dict({"rules": rules})) == ["the policy: rules: must be a list of objects"]


def test_tools_that_do_not_exist_are_refused_with_the_nearest_name() -> None:
    policy = Policy([allow("lookup_*"), deny("refnd"), deny("dlete_*"), allow("zzz")])
    assert problems(lambda: policy.check_tools(["lookup_order", "refund", "delete_all"])) == [
        "rule 2 (refnd): tool: no tool is called 'refnd'; did you mean 'refund'?",
        "rule 3 (dlete_*): tool: no tool matches 'dlete_*'; did you mean 'delete_all'?",
        "rule 4 (zzz): tool: no tool is called 'zzz'",
    ]
    policy.check_tools(["lookup_order", "refnd", "dlete_", "zzz", "one_more"])
