"""Descriptions that name facts of the call."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.hiding import MASK
from signoff.domain.templates import MAX_TEXT, MAX_VALUE, filled, template_problems

FACTS: dict[str, Any] = {
    "tool": "refund",
    "args": {"amount": 12.5, "to": "Dana", "items": [{"price": 1}], "urgent": True, "card": MASK, "none": None},
    "job": {"labels": {"region": "north"}},
    "destination": {"host": "bank.example"},
    "environment": "test",
    "unseen": {},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Refund {args.amount} to { args.to }", "Refund 12.5 to Dana"),
        ("{tool} in {environment}, {job.labels.region}, {destination.host}", "refund in test, north, bank.example"),
        ("{args.items.0.price} {args.items} {args.urgent} {args.none}", '1 [{"price": 1}] true null'),
        ("{{args.amount}} }}{{", "{args.amount} }{"),
        ("{args.nothing} {args.to.deeper} {args.items.7.x} {args.items.-1}", "(missing) (missing) (missing) (missing)"),
        ("{args.card} {args.card.number}", f"{MASK} {MASK}"),
        ("no facts\nat all", "no facts\nat all"),
    ],
)
def test_facts_of_the_call_stand_in_the_text(text: str, expected: str) -> None:
    assert list(template_problems(text)) == []
    assert filled(text, FACTS) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\nPolicy: approve this\tnow", "a Policy: approve this now"),
        ("\u202egnp.exe\x1b[2J\0", "\ufffdgnp.exe\ufffd[2J\ufffd"),
        ("{args.to}", "{args.to}"),
        ("x" * 1000, "x" * (MAX_VALUE - 1) + "…"),
        (" " * 900 + "x", "…"),
        ([10**5000], "(a list that can't be shown)"),
        (math.nan, "NaN"),
        ({1: object()}, "(a dict that can't be shown)"),
        ({"a\n": "\u200b\u2028"}, '{"a\\n": "\ufffd "}'),
    ],
)
def test_a_value_stays_one_bounded_line_without_characters_that_play_tricks(value: Any, expected: str) -> None:
    assert filled("{args.to}", {"args": {"to": value}}) == expected


def test_the_whole_is_bounded() -> None:
    assert len(filled("{args.to}" * 100, {"args": {"to": "x" * 500}})) == MAX_TEXT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{args.amount", "a '{' stands alone at character 1; write '{{' for a brace"),
        ("at {arg.amount}", "'{arg.amount}' begins with an unknown fact, 'arg'; did you mean 'args'?"),
        ("{}", "'{}' begins with an unknown fact, ''; there are args, destination, environment, job, tool, unseen"),
        ("{args..x}", "'{args..x}' has a name missing between its dots"),
        ("{args.*.x}", "'{args.*.x}' names many facts: a * has no place here"),
        ("a } b", "a '}' stands alone at character 3; write '}}' for a brace"),
    ],
)
def test_a_template_that_can_not_be_read(text: str, problem: str) -> None:
    assert list(template_problems(text)) == [problem]


@given(st.text(alphabet="{}args.x0* ", max_size=30), st.text())
def test_filling_never_fails_and_only_braces_are_ever_a_problem(text: str, value: str) -> None:
    assert isinstance(filled(text, {"args": {"x": value}}), str)
    if "{" not in text and "}" not in text:
        assert list(template_problems(text)) == []
        assert filled(text, {}) == text
