"""What is refused in a rule's reviewers, numbers, times and paths, in Python and in a file."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain import Policy, Rung, allow, deny, parse_policy, review
from signoff.domain.errors import PolicyInvalid
from signoff.domain.policy_file_rules import plain_rule
from signoff.domain.policy_fits import ASKING
from signoff.domain.policy_values import RULE_KEYS

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")


def word(text: Any) -> Any:
    """A word where its type is another."""
    return text


def problems(**changes: Any) -> list[str]:
    settings = {"reviewers": ["finance"], "deadline_seconds": 100, **changes}
    with pytest.raises(PolicyInvalid) as caught:
        review("pay", **{key: value for key, value in settings.items() if value is not None})
    return [problem["message"] for problem in caught.value.details["problems"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reviewers": ["@"]}, "reviewers: '@': write a person as @name"),
        ({"reviewers": ["@ dana"]}, "reviewers: '@ dana': write a person as @name"),
        ({"approvals": 0}, "approvals: must be a whole number of people, from 1 to 100"),
        ({"approvals": True}, "approvals: must be a whole number of people, from 1 to 100"),
        ({"approvals": 2.0}, "approvals: must be a whole number of people, from 1 to 100"),
        (
            {"approvals": 3, "reviewers": ["@a", "@b"]},
            "approvals: 3 are needed, and the reviewers are 2 alone",
        ),
        (
            {"approvals": 2, "decisions": ["reject", "respond"]},
            "approvals: nobody can approve, as neither 'approve' nor 'edit' is among the decisions",
        ),
        ({"reminders_seconds": 5}, "reminders_seconds: must be a list of times, with one at least"),
        ({"reminders_seconds": [5, "x"]}, "reminders_seconds: number 2 must be a number of seconds"),
        (
            {"reminders_seconds": [5, 100]},
            "reminders_seconds: the last comes when the deadline has passed, and so never",
        ),
        (
            {"reminders_seconds": [9, 5]},
            "reminders_seconds: the times are not in order, each later than the one before",
        ),
        (
            {"reminders_seconds": [5, 5]},
            "reminders_seconds: the times are not in order, each later than the one before",
        ),
        ({"escalation": "leads"}, "escalation: must be a list of rungs, with one at least"),
        ({"escalation": [5]}, "escalation: rung 1: must have a time, reviewers and perhaps replace"),
        ({"escalation": [Rung(5)]}, "escalation: rung 1: reviewers: must not be empty"),
        (
            {"escalation": [Rung(5, word("leads"))]},
            "escalation: rung 1: reviewers: must be a list of words",
        ),
        (
            {"escalation": [Rung(5, ("x",), replace=word("no"))]},
            "escalation: rung 1: replace: must be true or false",
        ),
        (
            {"escalation": [Rung(9, ("x",)), Rung(5, ("y",))]},
            "escalation: the times are not in order, each later than the one before",
        ),
        (
            {"escalation": [Rung(100, ("x",))]},
            "escalation: the last comes when the deadline has passed, and so never",
        ),
        ({"at_deadline": "expire"}, "at_deadline: 'expire' is unknown; use one of reject, escalate, fail, approve"),
        ({"at_deadline": "fail", "deadline_seconds": None}, "at_deadline: there is no deadline"),
        ({"at_deadline": "escalate"}, "at_deadline: to whom? Name the reviewers in escalate_to"),
        ({"escalate_to": ["x"]}, "escalate_to: these are never asked, as at_deadline is not 'escalate'"),
        (
            {"at_deadline": "approve", "approvals": 2},
            "at_deadline: time alone can't approve what needs several people",
        ),
        ({"at_deadline": "approve", "decisions": ["reject"]}, "at_deadline: 'approve' is not among the decisions"),
        ({"hide": "card"}, "hide: must be a list of words"),
        ({"hide": ["args.card"]}, "hide: 'args.card' begins inside the arguments: write 'card'"),
        ({"show": ["job.labels", "region"]}, "show: 'region' begins with an unknown fact, 'region'"),
        ({"show": ["args.*"]}, "show: 'args.*' names many facts: a * has no place here"),
        ({"description": "Pay {amount}"}, "description: '{amount}' begins with an unknown fact, 'amount'"),
        ({"tool_changes": ["x[a]"]}, "tool_changes: 'x[a]' the wildcards are * and ?; there are no [sets]"),
        (
            {"tool_changes": ["x"], "decisions": ["approve"]},
            "tool_changes: nobody can edit, as 'edit' is not among the decisions",
        ),
        (
            {"edits_need_another": True, "decisions": ["approve"]},
            "edits_need_another: nobody can edit, as 'edit' is not among the decisions",
        ),
        ({"edits_need_another": "yes"}, "edits_need_another: must be true or false"),
    ],
)
def test_each_mistake_has_its_own_words(changes: dict[str, Any], message: str) -> None:
    (found,) = problems(**changes)
    assert found.startswith(message)


def test_what_comes_close_to_a_mistake_is_none() -> None:
    review("a", reviewers=["@a", "@b"], approvals=2, reminders_seconds=[5])
    review("a", reviewers=["@a", "group"], approvals=5, deadline_seconds=10, reminders_seconds=[9.9])
    review("a", reviewers=["r"], escalation=[Rung(5, ("x",))], decisions=["edit"], tool_changes=["b"])
    review("a", reviewers=["r"], approvals=2, decisions=["edit"])


SETTINGS: dict[str, Any] = {
    "reviewers": ("r",),
    "decisions": ("edit",),
    "approvals": 2,
    "deadline_seconds": 50,
    "reminders_seconds": (5,),
    "escalation": [{"after_seconds": 5, "reviewers": ["x"]}],
    "at_deadline": "fail",
    "escalate_to": ("x",),
    "approval_valid_for_seconds": 5,
    "show": ("tool",),
    "tool_changes": ("x",),
    "edits_need_another": True,
}


@pytest.mark.parametrize("key", ASKING)
def test_settings_of_a_review_stand_idle_where_nobody_is_asked(key: str) -> None:
    for verdict in ("allow", "deny"):
        raw = {"tool": "a", "verdict": verdict, key: SETTINGS[key]}
        with pytest.raises(PolicyInvalid) as caught:
            Policy.from_dict({"rules": [raw]})
        (found,) = caught.value.details["problems"]
        assert found["message"].startswith(f"{key}: nobody is ever asked, as the verdict is {verdict!r}")


def test_what_hides_or_describes_is_never_idle() -> None:
    Policy([allow("a", hide=["x"], description="y", high_risk=True), deny("b", hide=["x"], description="y")])
    asked = set(RULE_KEYS) - {"tool", "verdict", "name", "when", "description", "hide", "high_risk"}
    assert asked == set(ASKING) == set(SETTINGS)


def test_people_to_fall_back_on_have_to_be_enough() -> None:
    rule = allow("a", when="args.x")
    raw = {**rule.to_dict(), "approvals": 2}
    with pytest.raises(PolicyInvalid, match="approvals: 2 are needed, and the fallback_reviewers are 1 alone"):
        Policy.from_dict({"rules": [raw], "fallback_reviewers": ["@dana"]})
    assert Policy.from_dict({"rules": [raw], "fallback_reviewers": ["leads"]}).rules[0].approvals == 2


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        2,
        -1,
        10**400,
        5.5,
        math.nan,
        math.inf,
        "",
        "x",
        "{",
        "{args.x}",
        "a.b",
        "@a",
        "edit",
        [],
        ["x"],
        {},
    ]
)
ODDER = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["after_seconds", "reviewers", "replace", "callable", "digest", "x"]), inner)
    ),
    max_leaves=6,
)
RULES = st.fixed_dictionaries(
    {"tool": ODD | st.just("pay"), "verdict": st.sampled_from(["review", "allow", "deny"]) | ODD},
    optional={key: ODDER for key in RULE_KEYS if key not in ("tool", "verdict")},
)


@given(st.lists(RULES, max_size=2), ODDER)
def test_any_plain_form_is_a_policy_that_survives_or_a_list_of_problems(rules: list[Any], fallback: Any) -> None:
    try:
        policy = Policy.from_dict({"rules": rules, "fallback_reviewers": fallback})
    except PolicyInvalid:
        return
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))).digest == policy.digest
    policy.judge("pay", {"x": 1}, job={}, environment="")


# --- files ---------------------------------------------------------------------------------------------


def lines(text: str) -> list[tuple[int, str]]:
    with pytest.raises(PolicyInvalid) as caught:
        parse_policy(text)
    return [(problem["line"], problem["message"]) for problem in caught.value.details["problems"]]


def test_times_of_a_file_are_durations() -> None:
    text = """
[[rules]]
tool = "pay"
verdict = "review"
reviewers = ["finance"]
deadline = "1d"
reminders = ["30m", "2h"]
escalation = [{ after = "4h", reviewers = ["leads"], replace = true }]
"""
    rule = review(
        "pay",
        reviewers=["finance"],
        deadline_seconds=86400,
        reminders_seconds=[1800, 7200],
        escalation=[Rung(14400, ("leads",), replace=True)],
    )
    assert parse_policy(text) == Policy([rule])
    tables = text.replace("escalation = [{", "[[rules.escalation]]\n").replace("}]", "").replace(", re", "\nre")
    assert parse_policy(tables) == Policy([rule])


def test_each_mistake_of_a_ladder_has_its_line() -> None:
    text = """[[rules]]
tool = "pay"
verdict = "review"
reviewers = ["finance"]
deadline = "1d"
reminders = ["30m", "2x"]

[[rules.escalation]]
after = "4"
reviewers = ["leads"]

[[rules.escalation]] # the second
after_seconds = 5
reviewers = "leads"

[[rules]]
tool = "refund"
verdict = "review"
reviewers = ["finance"]
deadline = "1d"
reminders = ["25h"]
escalation = [
    { after = "3h", reviewers = ["a"], replac = true },
    { after = "2h", reviewers = ["b"] },
]
at_deadlin = "fail"

[[rules]]
tool = "post"
verdict = "review"
reviewers = ["a"]
reminders = "2h"
at_deadline = "fail"
description = "{args"
"""
    assert lines(text) == [
        (6, "reminders: '2x' is not a duration; write a number and a unit, as in '90s', '30m', '24h', '7d'"),
        (
            9,
            "escalation: rung 1: after: '4' is not a duration; "
            "write a number and a unit, as in '90s', '30m', '24h', '7d'",
        ),
        (12, "escalation: rung 2: 'after' is missing"),
        (13, "escalation: rung 2: the key 'after_seconds' is unknown; did you mean 'after'?"),
        (14, "escalation: rung 2: reviewers: must be a list of words"),
        (21, "reminders: the last comes when the deadline has passed, and so never"),
        (22, "escalation: rung 1: the key 'replac' is unknown; did you mean 'replace'?"),
        (22, "escalation: the times are not in order, each later than the one before"),
        (26, "the key 'at_deadlin' is unknown; did you mean 'at_deadline'?"),
        (32, "reminders: must be a list of durations, as in ['30m', '2h']"),
        (33, "at_deadline: there is no deadline"),
        (34, "description: a '{' stands alone at character 1; write '{{' for a brace"),
    ]


@pytest.mark.parametrize("value", ["5", "[5]", "[{ after = [] }]", "[{}]", "[]", "[[]]", '"x"'])
def test_a_ladder_of_another_shape_is_refused(value: str) -> None:
    for key in ("reminders", "escalation"):
        found = lines(f'[[rules]]\ntool = "a"\nverdict = "review"\nreviewers = ["r"]\n{key} = {value}\n')
        assert found
        assert all(line == 5 and message.startswith(f"{key}: ") for line, message in found)


def test_the_complete_example_of_the_reference_has_every_key() -> None:
    (_, text) = REFERENCE.split("## A complete example")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    used = {key for rule in parse_policy(example).rules for key in rule.raw()}
    assert used == set(RULE_KEYS)


def test_the_reference_has_a_row_for_every_key() -> None:
    (_, text) = REFERENCE.split("## Keys of a rule")
    rows = re.findall(r"^\| `(\w+)` \| (?:yes|no|for)", text.split("## Conditions")[0], re.MULTILINE)
    known = {key.removesuffix("_seconds") for key in RULE_KEYS}
    assert set(rows) == known
    assert plain_rule({"reminders": ["1h"], "deadline": "2h"}) == {
        "reminders_seconds": [3600.0],
        "deadline_seconds": 7200.0,
    }
