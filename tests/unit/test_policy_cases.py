"""Calls with the verdicts that a policy should give them."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from signoff.domain import Policy, Verdict, allow, deny, parse_policy, review
from signoff.domain.errors import InvalidRequest
from signoff.domain.policy_cases import CASE_CHECKS, failures, read_call, read_cases

POLICY = Policy(
    [
        review("refund", when="args.amount > 100", name="big", reviewers=["finance"]),
        allow("refund", when="environment == 'production' && job.submitted_by == 'shop'", name="own"),
        deny("refund", when="'vip' in job.labels", name="vips"),
    ],
    fallback_reviewers=["leads"],
)

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")


def case(amount: int = 1, **more: Any) -> dict[str, Any]:
    return {"tool": "refund", "args": {"amount": amount}, "verdict": "allow", **more}


def failed(*cases: dict[str, Any], **file: Any) -> list[tuple[str, str, str]]:
    found = failures(POLICY, read_cases({"cases": list(cases), **file}, "development"))
    return [(one.case.name, str(one.judgement.verdict), one.judgement.rule) for one in found]


def problems(document: object) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        read_cases(document, "development")
    found: list[str] = caught.value.details["problems"]
    assert all(problem in caught.value.message for problem in found)
    return found


@pytest.mark.parametrize(("amount", "verdict", "rule"), [(500, "review", "big"), (1, "allow", "own")])
def test_the_expected_verdict_by_any_or_by_the_expected_rule(amount: int, verdict: str, rule: str) -> None:
    shared = {"environment": "production", "job": {"submitted_by": "shop"}}
    assert failed(case(amount, verdict=verdict), case(amount, verdict=verdict, rule=rule), **shared) == []


def test_another_verdict_and_another_rule_fail() -> None:
    cases = [case(500), case(500, verdict="review", rule="own", name="the rule"), case(500, verdict="review")]
    assert failed(*cases) == [("case 1 (refund)", "review", "big"), ("case 2 (the rule)", "review", "big")]


def test_no_rule_at_all_can_be_expected() -> None:
    assert failed({"tool": "other", "verdict": "deny", "rule": "no rule"}) == []


def test_a_case_is_stronger_than_its_file_and_the_file_than_the_setting() -> None:
    ours = case(job={"submitted_by": "shop"}, environment="production")
    assert failed(ours, environment="test", job={"submitted_by": "other"}) == []
    assert failed(case(job={"submitted_by": "shop"}), environment="production") == []
    assert failed(case(job={"submitted_by": "shop"})) == [("case 1 (refund)", "deny", "no rule")]


def test_a_job_of_the_file_is_completed_by_the_case() -> None:
    shared = {"environment": "test", "job": {"submitted_by": "shop"}}
    assert failed(case(verdict="deny", rule="vips", job={"labels": {"vip": "1"}}), **shared) == []


def test_what_is_not_said_of_the_job_is_missing_and_never_guessed() -> None:
    (found,) = failures(POLICY, read_cases({"cases": [case()], "environment": "production"}, "test"))
    assert (found.judgement.verdict, found.judgement.reviewers) == (Verdict.review, ("leads",))
    assert "'submitted_by' is missing" in found.judgement.reason


def test_a_job_has_labels_even_if_none_are_named() -> None:
    assert failed(case(verdict="deny", rule="no rule")) == []


def test_nobody_is_asked_unless_it_is_a_review() -> None:
    allowed: dict[str, Any] = {"environment": "production", "job": {"submitted_by": "shop"}}
    assert failed(case(approvals=0, reviewers=[], **allowed)) == []
    assert failed(case(approvals=1, **allowed)) == [("case 1 (refund)", "allow", "own")]
    assert failed(case(500, verdict="review", approvals=1, reviewers=["finance"])) == []
    assert failed(case(500, verdict="review", approvals=2), case(500, verdict="review", reviewers=["x"])) == [
        ("case 1 (refund)", "review", "big"),
        ("case 2 (refund)", "review", "big"),
    ]


def test_conditions_see_the_destination_and_what_the_model_never_saw() -> None:
    policy = Policy([allow("post", when="destination.host == unseen.home", reviewers=["leads"])])
    home: dict[str, Any] = {"tool": "post", "destination": {"host": "a"}, "unseen": {"home": "a"}, "verdict": "allow"}
    cases = [home, {**home, "unseen": {"home": "b"}, "verdict": "deny"}, {**home, "unseen": {}, "verdict": "review"}]
    assert failures(policy, read_cases({"cases": cases}, "test")) == []


def test_everything_that_is_wrong_is_said_at_once_with_its_place() -> None:
    day = datetime.date(2026, 1, 1)
    cases = [
        {"tool": "refund", "verdct": "allow"},
        case(verdict="alow", name="typed"),
        {"tool": 1, "verdict": ["allow"], "args": []},
        case(args={"when": day}),
        case(job={"label": {}, "labels": {"a": 1}, "id": 7}),
        "refund",
        case(approvals=-1, reviewers="finance", destination={"at": day}, unseen=[]),
    ]
    assert problems({"cases": cases, "job": {"thred": ""}, "enviroment": ""}) == [
        "the file: the key 'enviroment' is unknown; did you mean 'environment'?",
        "the file: job: the key 'thred' is unknown; did you mean 'thread'?",
        "case 1 (refund): the key 'verdct' is unknown; did you mean 'verdict'?",
        "case 1 (refund): 'verdict' is missing",
        "case 2 (typed): verdict: 'alow' is unknown; did you mean 'allow'?",
        "case 3: tool: must be text",
        "case 3: args: must be an object: the arguments by name",
        "case 3: verdict: must be one of allow, review, deny, as text",
        "case 4 (refund): args: when: a date is not JSON",
        "case 5 (refund): job: the key 'label' is unknown; did you mean 'labels'?",
        "case 5 (refund): job: id: must be text",
        "case 5 (refund): job: labels: must be an object: texts by name",
        "case 6: must be an object",
        "case 7 (refund): destination: at: a date is not JSON",
        "case 7 (refund): unseen: must be an object: values by name",
        "case 7 (refund): approvals: must be a whole number; 0 where nobody is asked",
        "case 7 (refund): reviewers: must be a list of words; empty where nobody is asked",
    ]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "the file: must be an object"),
        ({}, "the file: 'cases' is missing"),
        ({"cases": []}, "the file: cases: there are none"),
        ({"cases": {}}, "the file: cases: must be a list; in TOML, begin each case with [[cases]]"),
    ],
)
def test_a_file_that_tests_nothing_is_refused(document: object, problem: str) -> None:
    assert problems(document) == [problem]


def test_a_call_by_itself() -> None:
    call = read_call({"tool": "refund"}, {"agent": "desk"}, "test")
    assert (call.tool, call.args, call.job, call.environment) == ("refund", {}, {"labels": {}, "agent": "desk"}, "test")


def test_a_call_that_is_wrong() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_call({"tol": "refund"}, [], "test")
    assert caught.value.details["problems"] == [
        "the call: the key 'tol' is unknown; did you mean 'tool'?",
        "the call: 'tool' is missing",
        "the job: must be an object",
    ]


def test_the_example_of_the_reference_holds_for_its_first_policy() -> None:
    (policy, *_) = re.findall(r"^```toml\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL)
    (cases,) = re.findall(r"^    environment = .*\n(?:    .*\n|\n)*", REFERENCE, re.MULTILINE)
    assert failures(parse_policy(policy), read_cases(tomllib.loads(dedent(cases)), "test")) == []


def test_the_reference_lists_the_keys() -> None:
    (_, table) = REFERENCE.split("| key of a case |")
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(CASE_CHECKS)
