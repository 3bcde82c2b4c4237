"""The policy that is written from an agent's tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain import Policy, Verdict, parse_policy
from signoff.domain.effects import EffectClass
from signoff.domain.errors import InvalidRequest, PolicyInvalid
from signoff.domain.policy_starter import GRAVE, RISKS, risk_of, starter_policy

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"


def tool(effect_class: str) -> dict[str, Any]:
    return {"schema": {"type": "object"}, "class": effect_class}


def verdict(policy: Policy, name: str) -> Verdict:
    return policy.judge(name, {}, job={}, environment="production").verdict


def starter(**tools: str) -> Policy:
    return parse_policy(starter_policy({name: tool(word) for name, word in tools.items()}, "finance"))


@pytest.mark.parametrize("effect_class", EffectClass)
def test_only_what_reads_is_free(effect_class: EffectClass) -> None:
    expected = Verdict.allow if effect_class is EffectClass.read else Verdict.review
    assert verdict(starter(lookup_order=effect_class), "lookup_order") == expected


@pytest.mark.parametrize("word", [word for words in RISKS.values() for word in words])
def test_a_word_of_risk_is_stronger_than_the_class(word: str) -> None:
    assert verdict(starter(**{f"get_{word}s": "read"}), f"get_{word}s") is Verdict.review


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("refund_order", "refund"),
        ("createPayment", "pay"),
        ("SMTPSend", "send"),
        ("HTTPPost", "post"),
        ("sendmail2all", "send"),
        ("resend", "send"),
        ("getpayments", "pay"),
        ("user.roles", "role"),
        ("DELETE-USER", "delete"),
        ("drop1", "drop"),
        ("publishPost", "publish"),
    ],
)
def test_the_word_is_found_however_the_name_is_written(name: str, word: str) -> None:
    found = risk_of(name)
    assert found is not None
    assert found[0] == word


@pytest.mark.parametrize("name", ["lookup_order", "search", "repository", "display_cart", "controller", "compute"])
def test_other_names_tell_no_risk(name: str) -> None:
    assert risk_of(name) is None


def test_a_tool_that_gives_no_class_is_reviewed() -> None:
    assert verdict(parse_policy(starter_policy({"search": {}}, "finance")), "search") is Verdict.review


def test_a_tool_that_came_later_is_denied() -> None:
    assert verdict(starter(search="read"), "search_more") is Verdict.deny


def test_reviewers_are_asked_and_read_why() -> None:
    policy = starter(refund="opaque", add_note="idempotent", search="read")
    assert policy.fallback_reviewers == ("finance",)
    assert [(rule.tool, rule.reviewers, rule.description) for rule in policy.rules] == [
        ("refund", ("finance",), "It may move money."),
        ("add_note", ("finance",), None),
        ("search", (), None),
    ]


def test_what_is_suggested_for_money_and_deletion_holds_without_its_comment_sign() -> None:
    text = starter_policy({name: tool("opaque") for name in ("refund", "delete_user", "send_mail", "go")}, "finance")
    policy = parse_policy(re.sub(r"^# (approvals|hide) =", r"\1 =", text, flags=re.MULTILINE))
    found = {rule.tool: (rule.approvals, bool(rule.hide)) for rule in policy.rules}
    assert found == {"refund": (2, True), "delete_user": (2, True), "send_mail": (1, False), "go": (1, False)}


def test_each_rule_has_its_reason_above_it() -> None:
    lines = starter_policy({"get_roles": tool("read"), "refund": tool("keyed"), "go": tool("read")}, "x").splitlines()
    reasons = [lines[index - 1] for index, line in enumerate(lines) if line == "[[rules]]"]
    assert reasons == [
        "# Its name says 'role', although it is of class read.",
        "# Its name says 'refund'; it is of class keyed.",
        "# Of class read.",
    ]


def test_an_agent_without_tools_gets_a_policy_that_allows_nothing() -> None:
    assert parse_policy(starter_policy({}, "finance")).rules == ()


def test_everything_that_is_wrong_with_the_tools_is_said_at_once() -> None:
    tools = {"a*": {}, "b": [], "c": {"clas": "read"}, "d": {"class": "reed"}, "e": {"class": ["read"]}}
    with pytest.raises(InvalidRequest) as caught:
        starter_policy(tools, "finance")
    assert caught.value.details["problems"] == [
        "tool 'a*': a rule would read * and ? in its name as wildcards",
        'tool \'b\': must be an object, as in {"class": "read"}',
        "tool 'c': the key 'clas' is unknown; did you mean 'class'?",
        "tool 'd': class: 'reed' is unknown; did you mean 'read'?",
        "tool 'e': class: must be one of read, transactional, idempotent, keyed, queryable, opaque, as text",
    ]
    with pytest.raises(InvalidRequest, match="must be an object: the tools by name"):
        starter_policy([], "finance")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "group"), [("a[b]", "finance"), (" a", "finance"), ("", "finance"), ("a", " ")])
def test_what_no_policy_could_hold_is_refused(name: str, group: str) -> None:
    with pytest.raises(PolicyInvalid):
        starter_policy({name: tool("read")}, group)


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="*?[]\0"), min_size=1, max_size=20)


@given(st.dictionaries(NAMES.filter(lambda name: name == name.strip()), st.sampled_from(list(EffectClass)), max_size=5))
def test_whatever_the_names_the_text_holds_exactly_these_tools(classes: dict[str, EffectClass]) -> None:
    text = starter_policy({name: tool(word) for name, word in classes.items()}, 'a "group"')
    assert all(char.isprintable() for char in text.replace("\n", ""))
    policy = parse_policy(text)
    assert sorted(rule.tool for rule in policy.rules) == sorted(classes)
    for name, word in classes.items():
        free = word is EffectClass.read and risk_of(name) is None
        assert verdict(policy, name) == (Verdict.allow if free else Verdict.review)


def test_the_reference_lists_the_words() -> None:
    rows = re.findall(r"^\| (`.*`) \| (It may .*) \|$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {risk: tuple(re.findall(r"`(\w+)`", cell)) for cell, risk in rows} == RISKS


def test_what_is_grave_is_a_risk() -> None:
    assert set(GRAVE) <= set(RISKS)
