"""Callables in place of CEL."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from signoff.domain import Judgement, Policy, Verdict, allow, deny, parse_policy, review
from signoff.domain.errors import PolicyInvalid

Facts = Mapping[str, Any]


def small(facts: Facts) -> bool:
    amount: int = facts["args"]["amount"]
    return amount < 5


def policy(when: Callable[[Any], Any]) -> Policy:
    return Policy([allow("pay", when=when, name="small"), deny("pay")], ["leads"])


def judge(policy: Policy, **args: Any) -> Judgement:
    return policy.judge(
        "pay", args, job={"labels": {}}, environment="test", destination="bank", unseen={"customer": "C-1"}
    )


def test_it_decides_as_an_expression_would() -> None:
    assert judge(policy(small), amount=1).verdict is Verdict.allow
    assert judge(policy(small), amount=9).verdict is Verdict.deny


def test_it_is_given_all_facts_as_copies() -> None:
    seen: list[dict[str, Any]] = []

    def spoil(facts: dict[str, Any]) -> bool:
        seen.append(dict(facts))
        facts["args"]["payee"]["name"] = facts["job"]["labels"]["x"] = "spoilt"
        return True

    args = {"payee": {"name": "Dana"}}
    rule = review("pay", when=spoil, reviewers=["r"], description="{args.payee.name}{job.labels.x}")
    assert judge(Policy([rule]), **args).description == "Dana(missing)"
    assert args == {"payee": {"name": "Dana"}}
    assert set(seen[0]) == {"args", "destination", "environment", "job", "tool", "unseen"}
    assert (seen[0]["destination"], seen[0]["unseen"]) == ("bank", {"customer": "C-1"})


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> Callable[[Facts], bool]:
    def predicate(facts: Facts) -> bool:
        raise error

    return predicate


async def later() -> bool:
    return True


@pytest.mark.parametrize(
    ("when", "why"),
    [
        (small, "it raised KeyError: 'amount'"),
        (raising(Odd()), "it raised Odd"),
        (raising(SystemExit(1)), "it raised SystemExit: 1"),
        (lambda facts: 1, "it gives a int where True or False is needed"),
        (lambda facts: None, "it gives a NoneType"),
        (lambda facts: later(), "it gives a coroutine"),
        (lambda: True, "it raised TypeError"),
    ],
)
def test_one_that_has_no_answer_means_review(when: Callable[[Any], Any], why: str) -> None:
    found = judge(policy(when))
    assert (found.verdict, found.rule, found.reviewers) == (Verdict.review, "small", ("leads",))
    assert f"the condition of 'small' can't be evaluated: {why}" in found.reason


def test_facts_that_can_not_be_copied_mean_review() -> None:
    found = policy(small).judge("pay", {}, job={}, environment="", unseen={"lock": threading.Lock()})
    assert found.verdict is Verdict.review


def test_a_request_to_stop_gets_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        judge(policy(raising(KeyboardInterrupt())))


def test_its_words_are_not_quoted_where_arguments_are_hidden() -> None:
    rule = review("pay", when=raising(ValueError("card 4111")), reviewers=["r"], hide=["card"])
    assert judge(Policy([rule])).reason.endswith("can't be evaluated: it raised ValueError")


def test_elsewhere_it_is_known_by_name_and_can_not_be_asked() -> None:
    mine = policy(small)
    stored = json.loads(json.dumps(mine.to_dict()))
    assert stored["rules"][0]["when"]["callable"] == f"{__name__}.small"
    other = Policy.from_dict(stored)
    assert other.digest == mine.digest
    assert Policy.from_dict(other.to_dict()) == other
    found = judge(other, amount=1)
    assert (found.verdict, found.reviewers) == (Verdict.review, ("leads",))
    assert "small is Python, and can be called where the agent runs alone" in found.reason


def limit(value: Any, default: int = 1) -> Callable[[Facts], bool]:
    def below(facts: Facts, most: int = default) -> bool:
        return bool(facts["args"]["amount"] < value + most)

    return below


class Below:
    def __call__(self, facts: Facts) -> bool:
        return True


def test_the_digest_changes_with_what_it_does() -> None:
    digests = [
        policy(when).digest
        for when in (
            small,
            limit(1),
            limit(2),
            limit(1, 2),
            lambda facts: facts["args"]["amount"] < 5,
            lambda facts: facts["args"]["amount"] < 6,
            lambda facts: facts["tool"] in {"a", "b"},
            Below(),
            Below().__call__,
            functools.partial(limit, 1),
        )
    ]
    assert len(set(digests)) == len(digests)
    assert policy(limit(1)).digest == policy(limit(1)).digest


PROGRAM = """
from signoff.domain import Policy, allow
WORDS = ("a", "b")
BOX = object()

def known(facts):
    return facts["tool"] in {"x", "y", "z"} or facts["tool"] in WORDS or BOX

print(Policy([allow("pay", when=known)], ["r"]).digest)
"""


def test_the_digest_is_the_same_in_each_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (later, "when: the callable must not be async"),
        (3, "when: must be text (a condition in CEL), or a callable"),
        ({"callable": 1}, "when: must be a condition in CEL, or a callable"),
        ({"callable": "a", "source": ""}, "when: must be a condition in CEL, or a callable"),
    ],
)
def test_what_is_neither_is_refused(when: Any, message: str) -> None:
    with pytest.raises(PolicyInvalid, match="when: ") as caught:
        allow("pay", when=when)
    assert [problem["message"] for problem in caught.value.details["problems"]] == [message]


def test_a_file_can_not_name_one() -> None:
    with pytest.raises(PolicyInvalid) as caught:
        parse_policy('[[rules]]\ntool = "pay"\nverdict = "deny"\nreviewers = ["r"]\nwhen = { callable = "a.b" }\n')
    assert [(problem["line"], problem["message"]) for problem in caught.value.details["problems"]] == [
        (5, "when: must be text (a condition in CEL); a callable is for a policy in Python alone")
    ]
