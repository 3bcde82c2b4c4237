"""Conditions of policy rules: CEL expressions over the facts of a call (`VARIABLES`).

A condition answers True or False, or says why it can't: it never guesses. The engine is used only where it is exact
and bounded; what it would round (integers beyond 64 bits), crash on (deep nesting) or chew on for minutes (nested loops
over long lists) counts as "can't be evaluated".
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from signoff.domain.canonical import MAX_DEPTH, scrub
from signoff.domain.wording import did_you_mean

if TYPE_CHECKING:
    from cel import Context, Program

VARIABLES = ("args", "destination", "environment", "job", "tool", "unseen")
MAX_SOURCE = 2000
MAX_SIZE = 1_000_000
MAX_STEPS = 10_000_000

_TYPES = {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
_CONVERSIONS = {"bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
_TEXT = {"contains", "endsWith", "matches", "size", "startsWith"}
_DATE = {"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getMonth"}
_TIME = {"getHours", "getMilliseconds", "getMinutes", "getSeconds"}
_FUNCTIONS = _CONVERSIONS | _TEXT | _DATE | _TIME
_MACROS = {"all", "exists", "existsOne", "exists_one", "filter", "map"}
_LOOP = re.compile(r"\b(all|exists|existsOne|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
_LOOP_WORD = re.compile(r"\b(all|exists|existsOne|exists_one|filter|map)\b")
_LARGEST = 2**63 - 1


class ConditionInvalid(ValueError):
    """The expression can't be used at all; the text says what is wrong with it."""


class CannotEvaluate(ValueError):
    """The condition has no answer for this call; the text says why, for a reviewer.

    `discreet` says it without any value of the call, as far as that can be said.
    """

    def __init__(self, why: str, discreet: str | None = None) -> None:
        super().__init__(why)
        self.discreet = why if discreet is None else discreet


class NotHere(CannotEvaluate):
    """Another process has the answer."""


@dataclass(frozen=True)
class Condition:
    """A compiled expression."""

    source: str
    program: Program
    names: frozenset[str]
    loops: int

    def holds(self, facts: Facts) -> bool:
        """The answer for one call. Raises CannotEvaluate, and nothing else."""
        context = facts.context(self)
        try:
            answer = self.program.execute(context)
        except BaseException as error:
            # A panic of the engine arrives as a BaseException of its own; a cancelled task has to get through.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise _no_answer(error, self.source) from error
        if not isinstance(answer, bool):
            raise CannotEvaluate(f"it gives a {type(answer).__name__} where true or false is needed")
        return answer


@lru_cache(maxsize=4096)
def compile_condition(source: str) -> Condition:
    """Raises ConditionInvalid for what can't be parsed, or names an unknown variable or function."""
    if len(source) > MAX_SOURCE:
        raise ConditionInvalid(f"the condition is longer than {MAX_SOURCE} characters")
    try:
        # Here and not above: importing the engine loads a whole command line with it (half a second).
        program: Program = import_module("cel").compile(source)
    except Exception as error:
        raise ConditionInvalid(_syntax_error(error)) from error
    problem = next(_unknown_names(source, program), None)
    if problem:
        raise ConditionInvalid(problem)
    return Condition(source, program, frozenset(program.variables()).intersection(VARIABLES), _loops(source))


class Facts:
    """What conditions may look at for one call; checked and handed to the engine once, at the first condition."""

    def __init__(self, variables: Mapping[str, Any], names: frozenset[str]) -> None:
        self._all = variables
        self._variables = {name: variables[name] for name in names}

    def copies(self) -> dict[str, Any]:
        """All of them, so that whoever gets them can change nothing."""
        return copy.deepcopy(dict(self._all))

    def context(self, condition: Condition) -> Context:
        """Raises CannotEvaluate if the engine can't hold the facts, or would take too long over them."""
        steps = 1 if condition.loops == 0 else self._size ** (condition.loops + 1)
        if steps > MAX_STEPS:
            raise CannotEvaluate("the arguments are too large for a condition with loops")
        return self._context

    @cached_property
    def _size(self) -> int:
        return _measure(self._variables, 0)

    @cached_property
    def _context(self) -> Context:
        if self._size > MAX_SIZE:
            raise CannotEvaluate("the arguments are too large")
        try:
            context: Context = import_module("cel").Context(self._variables)
        except Exception as error:
            raise CannotEvaluate("the arguments hold text that is not valid Unicode") from error
        return context


def _measure(value: object, depth: int) -> int:
    """The size of the value, in steps of a loop. Raises CannotEvaluate for what the engine can't hold exactly."""
    if isinstance(value, str):
        return 1 + len(value) // 256
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, (int, float)):
        return _measure_number(value)
    return _measure_container(value, depth)


def _measure_number(value: int | float) -> int:
    # The lowest 64-bit integer is out too: negated by the engine, it stays negative without a word.
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise CannotEvaluate("an integer is beyond 64 bits")
    if not math.isfinite(value):
        raise CannotEvaluate("a number is not finite")
    return 1


def _measure_container(value: object, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise CannotEvaluate(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise CannotEvaluate("a key is not text")
        return 1 + sum(_measure(item, depth + 1) for item in value.values())
    if isinstance(value, (list, tuple)):
        return 1 + sum(_measure(item, depth + 1) for item in value)
    raise CannotEvaluate(f"a {type(value).__name__} is not JSON")


def _loops(source: str) -> int:
    # Counted in the text, so too many rather than too few. `map` and `filter` copy their list at each step: twice.
    return sum(2 if word in ("map", "filter") else 1 for word in _LOOP_WORD.findall(source))


def _unknown_names(source: str, program: Program) -> Iterator[str]:
    names = {*VARIABLES, *_TYPES, *(bound for _, bound in _LOOP.findall(source))}
    for name in program.variables():
        if name not in names:
            yield f"the variable {name!r} is unknown" + (did_you_mean(name, VARIABLES) or f"; there are {_VARIABLES}")
    for name in program.functions():
        if name.isidentifier() and name not in _FUNCTIONS:
            yield f"the function {name!r} is unknown{did_you_mean(name, _FUNCTIONS | _MACROS | {'has'})}"


_VARIABLES = ", ".join(VARIABLES)


def _syntax_error(error: Exception) -> str:
    text = str(error)
    found = re.search(r"ERROR: <input>:(\d+):(\d+): (.*)", text)
    if not found:
        return _reason(error)
    line, column, message = found.groups()
    place = f"column {column}" if line == "1" else f"line {line}, column {column}"
    message = (
        message.removeprefix("Syntax error: ")
        .partition(" expecting ")[0]
        .replace("mismatched input", "unexpected")
        .replace("'<EOF>'", "end of text")
    )
    return f"the condition can't be read, {place}: {message[:200]}"


def _no_answer(error: BaseException, source: str) -> CannotEvaluate:
    why = _reason(error)
    if isinstance(error, TypeError) or (isinstance(error, KeyError) and str(error).strip("'\"") in source):
        return CannotEvaluate(why)
    # The engine may quote what it was given, and a missing name may have been looked up by a value.
    return CannotEvaluate(why, "why is not said, as arguments are hidden")


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{scrub(str(error))[:100]} is missing"
    if isinstance(error, TypeError):
        return "the values are of types that can't be compared or combined"
    return scrub(str(error).partition("\n")[0])[:200] or type(error).__name__
