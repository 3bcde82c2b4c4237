from __future__ import annotations

import math
import threading
import time
from typing import Any

import pytest

from signoff.domain.conditions import CannotEvaluate, Condition, ConditionInvalid, Facts, compile_condition


def facts(condition: Condition, args: dict[str, Any]) -> Facts:
    variables = {"tool": "refund", "args": args, "job": {"agent": "support"}, "environment": "test"}
    return Facts(variables, condition.names)


def holds(source: str, **args: Any) -> bool:
    condition = compile_condition(source)
    return condition.holds(facts(condition, args))


@pytest.mark.parametrize("amount", [501, 500.5, 2**63 - 1, 1e300])
def test_integers_and_floats_compare(amount: float) -> None:
    assert holds("args.amount > 500", amount=amount)
    assert holds("args.amount > 500.0", amount=amount)
    assert not holds("args.amount <= 500", amount=amount)


@pytest.mark.parametrize(
    ("source", "args"),
    [
        ("tool == 'refund' && environment == 'test' && job.agent == 'support'", {}),
        ("has(args.to) && args.to.endsWith('@example.com')", {"to": "a@example.com"}),
        ("args.to.all(x, x.matches('^[a-z]+$'))", {"to": ["a", "b"]}),
        ("size(args.text) > 3 || type(args.text) == int", {"text": "é\U0001f600x\n"}),
        ("timestamp(args.at) > timestamp('2020-01-01T00:00:00Z')", {"at": "2024-01-01T00:00:00Z"}),
        ("args['in'] in ['a', 'b']", {"in": "a"}),
        ("args.to.filter(x, x != 'a').size() == 1", {"to": ["a", "b"]}),
        ("args.n == null", {"n": None}),
    ],
)
def test_what_conditions_can_say(source: str, args: dict[str, Any]) -> None:
    assert holds(source, **args)


UNANSWERABLE: list[tuple[str, dict[str, Any], str]] = [
    ("args.amount > 1", {}, "'amount' is missing"),
    ("args.amount > 1", {"amount": "2"}, "types"),
    ("args.amount > 1", {"amount": None}, "types"),
    ("args.amount > 1", {"amount": True}, "types"),
    ("args.amount > 1", {"amount": [2]}, "types"),
    ("args.amount > 1", {"amount": 2**63}, "beyond 64 bits"),
    ("args.amount > 1", {"amount": 10**400}, "beyond 64 bits"),
    ("-args.amount > 1", {"amount": -(2**63)}, "beyond 64 bits"),
    ("args.amount > 1", {"amount": math.nan}, "not finite"),
    ("args.amount > 1", {"amount": math.inf}, "not finite"),
    ("args.amount > 1", {"amount": 2, "note": "\ud800"}, "Unicode"),
    ("args.amount > 1", {"amount": 2, "note": {1: 1}}, "not text"),
    ("args.amount > 1", {"amount": 2, "note": b"x"}, "not JSON"),
    ("args.amount * 2 > 1", {"amount": 2.5}, "types"),
    ("args.amount + 1 > 1", {"amount": 2**63 - 1}, "overflow"),
    ("args.amount / args.by > 1", {"amount": 2, "by": 0}, "zero"),
    ("args.to[3] == 'a'", {"to": []}, "bounds"),
    ("args.text.matches(args.re)", {"text": "a", "re": "("}, "regex"),
    ("args.amount", {"amount": 2}, "int where true or false"),
    ("args.amount == 1 ? 'yes' : 'no'", {"amount": 2}, "str where true or false"),
]


@pytest.mark.parametrize(("source", "args", "why"), UNANSWERABLE)
def test_a_condition_that_has_no_answer_says_why(source: str, args: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotEvaluate, match=why):
        holds(source, **args)


def test_deep_arguments_never_reach_the_engine() -> None:
    deep: Any = 1
    for _ in range(100_000):  # the engine would end the process
        deep = [deep]
    with pytest.raises(CannotEvaluate, match="nested deeper"):
        holds("args.amount > 1", amount=2, note=deep)


@pytest.mark.parametrize(
    "source",
    [
        "args.l.all(x, args.l.all(y, args.l.all(z, x + y + z >= 0)))",
        "args.l.map(x, args.l.map(y, args.l)).size() > 0",
        "args.l.filter(x, x in args.l).size() > 0",
    ],
)
def test_loops_over_long_arguments_are_not_begun(source: str) -> None:
    started = time.monotonic()
    with pytest.raises(CannotEvaluate, match="too large"):
        holds(source, l=list(range(1000)))
    assert time.monotonic() - started < 1
    assert isinstance(holds(source, l=[1, 2, 3]), bool)


def test_large_arguments_are_no_matter_without_loops() -> None:
    assert holds("size(args.l) == 10000 && size(args.s) == 1000000", l=[0] * 10_000, s="x" * 1_000_000)


def test_a_hostile_text_does_not_slow_a_pattern_down() -> None:
    assert not holds("args.s.matches('^(a+)+$')", s="a" * 100_000 + "b")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "can't be read"),
        ("args.amount >", "column 14: unexpected end of text"),
        ("args.amount > 1 &&\n (", "line 2"),
        ("args.amount is 1", "can't be read"),
        ("(" * 1500, "can't be read"),
        ("true || " * 300 + "true", "longer than 2000"),
        ("arg.amount > 1", "the variable 'arg' is unknown; did you mean 'args'?"),
        ("amount > 1", "the variable 'amount' is unknown; there are args, destination, environment, job, tool, unseen"),
        ("args.to.all(x, y == x)", "the variable 'y' is unknown"),
        ("args.to.lowerAscii() == 'x'", "the function 'lowerAscii' is unknown"),
        ("args.to.startWith('x')", "did you mean 'startsWith'?"),
        ("now() > args.at", "the function 'now' is unknown"),
        ("args.to.exists(k, v, v == 1)", "is unknown"),
        ("optional.of(1) == 1", "is unknown"),
        ("args.x == '\ud800'", "surrogates"),
    ],
)
def test_an_expression_that_can_never_work_is_refused(source: str, message: str) -> None:
    with pytest.raises(ConditionInvalid) as caught:
        compile_condition(source)
    assert message in str(caught.value)


class Broken:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, context: object) -> Any:
        raise self.error


class PanicException(BaseException):
    """What the engine's crashes look like."""


def broken(error: BaseException) -> Condition:
    return Condition("x", Broken(error), frozenset(), 0)  # type: ignore[arg-type]


def test_a_crash_of_the_engine_is_no_answer() -> None:
    for error in (PanicException("index out of range"), MemoryError(), RecursionError()):
        condition = broken(error)
        with pytest.raises(CannotEvaluate):
            condition.holds(facts(condition, {}))


def test_a_request_to_stop_gets_through() -> None:
    condition = broken(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        condition.holds(facts(condition, {}))


def test_a_condition_serves_many_threads() -> None:
    answers: list[bool] = []

    def ask() -> None:
        answers.extend(holds("args.n % 2 == 0", n=n) for n in range(200))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(True) == answers.count(False) == 400
