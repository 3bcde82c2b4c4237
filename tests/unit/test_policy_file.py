from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain import Policy, allow, parse_policy, review
from signoff.domain.errors import PolicyInvalid

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"

GOOD = """
fallback_reviewers = ["support-leads"]     # optional
[[rules]]
tool = "lookup_order"
verdict = "allow"
[[rules]]
name = "big refunds"
tool = "refund"
when = "args.amount > 100.0"
verdict = "review"
decisions = ["approve", "edit", "reject"]
reviewers = ["finance"]
deadline = "24h"
approval_valid_for = "1.5 h"
description = "A refund leaves our account at once"
"""


def problems(text: str) -> list[tuple[int, str]]:
    with pytest.raises(PolicyInvalid) as caught:
        parse_policy(text)
    found: list[dict[str, Any]] = caught.value.details["problems"]
    assert all(problem["where"].startswith(f"line {problem['line']}") for problem in found)
    return [(problem["line"], problem["message"]) for problem in found]


def test_the_file_form_means_what_the_python_form_means() -> None:
    assert parse_policy(GOOD) == Policy(
        [
            allow("lookup_order"),
            review(
                "refund",
                name="big refunds",
                when="args.amount > 100.0",
                decisions=["approve", "edit", "reject"],
                reviewers=["finance"],
                deadline_seconds=86400,
                approval_valid_for_seconds=5400,
                description="A refund leaves our account at once",
            ),
        ],
        ["support-leads"],
    )


def test_a_policy_keeps_its_digest_when_new_keys_come() -> None:
    # Taken before there was any of them: stored verdicts and running jobs carry it.
    assert parse_policy(GOOD).digest == "a1e10569bca7693642531059b49859c8b00afffe8c8fbce424bb22c9736ff3b9"


def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    assert parse_policy("\ufeff" + GOOD.replace("\n", "\r\n")) == parse_policy(GOOD)
    assert parse_policy("") == Policy()


def test_everything_that_is_wrong_is_told_at_once_with_its_line() -> None:
    text = '''fallback_reviewer = ["x"]
[[rules]]
tool = "lookup_order"
verdict = "alow"

[[ rules ]] # the second
tool = "re*"
verdict = "review"
description = """
[[rules]]
tool = "not a key"
"""
when = """
args.amount >"""
[[rules]]
"tool" = "x[ab]"
verdict = "review"
reviewers = []
deadline = 24
aproval_valid_for = "1h"
[[rules]]
name = "a"
tool = "*"
verdict = "review"
reviewers = ["x"]
deadline = "99999d"
decisions = [
  "aprove",
  "edit",
]
fallback_reviewers = ["x"]
[[rules]]
name = "a"
tool = "foo"
verdict = "allow"
when = "arg.x > 1"
deadline_seconds = 5
'''
    assert problems(text) == [
        (1, "the key 'fallback_reviewer' is unknown; did you mean 'fallback_reviewers'?"),
        (4, "verdict: 'alow' is unknown; did you mean 'allow'?"),
        (6, "reviewers: a review needs at least one group"),
        (13, "when: the condition can't be read, column 14: unexpected end of text"),
        (16, "tool: the wildcards are * and ?; there are no [sets]"),
        (18, "reviewers: must not be empty"),
        (19, "deadline: 24 is not a duration; write a number and a unit, as in '90s', '30m', '24h', '7d'"),
        (20, "the key 'aproval_valid_for' is unknown; did you mean 'approval_valid_for'?"),
        (26, "deadline: must be more than nothing and at most 3650 days"),
        (27, "decisions: 'aprove' is unknown; did you mean 'approve'?"),
        (31, "the key 'fallback_reviewers' is unknown; it belongs to the policy: write it above the first rule"),
        (33, "name: 'a' is the name of rule 4 already"),
        (34, "tool: never reached, 'a' comes first and takes every such call"),
        (36, "when: the variable 'arg' is unknown; did you mean 'args'?"),
        (
            36,
            "when: who is asked if the condition can't be evaluated? "
            "Give the rule reviewers, or the policy fallback_reviewers",
        ),
        (37, "the key 'deadline_seconds' is unknown; did you mean 'deadline'?"),
    ]


def test_where_names_the_line_and_the_rule() -> None:
    with pytest.raises(PolicyInvalid) as caught:
        parse_policy('\n[[rules]]\ntool = "a"\nverdict = "x"\n')
    assert caught.value.details["problems"][0]["where"] == "line 4, rule 1 (a)"
    assert "line 4, rule 1 (a): verdict: 'x' is unknown" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[[rules]]\ntool = "a\n', 2, "this is not TOML: Illegal character"),
        ('[[rules]]\ntool = "a"\ntool = "b"\n', 3, "this is not TOML: Cannot overwrite a value"),
        ("a = [", 1, "this is not TOML"),
        ("a = " + "[" * 5000, 1, "this is not TOML"),
        ("a = 1" + "0" * 5000, 1, "this is not TOML"),
        ("\n[rules]\n", 2, "rules: must be tables; begin each rule with [[rules]]"),
        ("\nrules = 3", 2, "rules: must be tables; begin each rule with [[rules]]"),
        ("\nrules = [{}, 3]", 2, "rules: must be tables; begin each rule with [[rules]]"),
        ("\nfallback_reviewers = 0", 2, "fallback_reviewers: must be a list of words"),
        ("\nrules = [{tool='a',verdict='allow'}, {tool='b', verdict='x'}]", 2, "verdict: 'x' is unknown"),
        ('[[rules]]\n[rules.tool]\nx = 1\n[[rules]]\ntool = "a"\nverdict = "x"', 6, "verdict: 'x' is unknown"),
        ("[[rules]]\ntool = 2024-01-01\n", 2, "tool: must be text"),
    ],
)
def test_a_text_of_another_shape_is_refused(text: str, line: int, message: str) -> None:
    assert any(found == line and said.startswith(message) for found, said in problems(text)), problems(text)


@pytest.mark.parametrize("text", ["90", "1w", "-1h", "h", "1h30m", "1e3s", "", "٣h", "9" * 400 + "s"])
def test_durations_are_a_number_and_a_unit(text: str) -> None:
    assert "is not a duration" in problems(GOOD.replace("24h", text))[0][1]


FRAGMENTS = [
    *GOOD.splitlines(keepends=True),
    '"""',
    "'''",
    "[[rules]]",
    "[rules.x]\n",
    "[[rules.escalation]]\n",
    'after = "1h"\n',
    'escalation = [{ after = "1h", reviewers = ["a"] }]\n',
    'reminders = ["1h", "2h"]\n',
    'at_deadline = "escalate"\n',
    'escalate_to = ["a"]\n',
    'hide = ["a.*"]\n',
    "approvals = 2\n",
    "when = 3\n",
    "=",
    "\0",
    "{",
    "é",
]


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=12))
def test_any_text_is_a_policy_or_a_list_of_problems(parts: list[str]) -> None:
    found: list[dict[str, Any]] = []
    try:
        parse_policy("".join(parts))
    except PolicyInvalid as error:
        found = error.details["problems"]
    assert all(problem["line"] >= 1 and problem["message"] for problem in found)


def blocks() -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```$", REFERENCE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", blocks(), ids=range(len(blocks())))
def test_every_example_of_the_reference_is_a_policy(block: str) -> None:
    assert parse_policy(block).rules


def test_the_reference_has_examples() -> None:
    assert len(blocks()) >= 3
