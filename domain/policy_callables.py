"""Conditions of policy rules that are Python: a callable from the facts of a call to True or False.

It has no other form: another process knows its name alone, can't call it, and so asks a person.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from signoff.domain.canonical import canonical_json, scrub
from signoff.domain.conditions import CannotEvaluate, Facts, NotHere
from signoff.domain.errors import UnreadableArguments

Predicate = Callable[[dict[str, Any]], bool]
KEYS = ("callable", "digest")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A callable that is in another process. It has no answer."""

    callable: str
    digest: str | None = None

    def holds(self, facts: Facts) -> bool:
        """Raises NotHere."""
        raise NotHere(f"{self.callable} is Python, and can be called where the agent runs alone")

    def to_dict(self) -> dict[str, Any]:
        return {"callable": self.callable, "digest": self.digest}


@dataclass(frozen=True, slots=True)
class Called:
    """A callable that is here."""

    predicate: Predicate

    def holds(self, facts: Facts) -> bool:
        """The answer for one call, from copies of its facts. Raises CannotEvaluate, and nothing else."""
        try:
            answer: object = self.predicate(facts.copies())
        except (Exception, SystemExit) as error:
            kind, text = f"it raised {type(error).__name__}", _text(error)
            raise CannotEvaluate(f"{kind}{text and ': '}{text}", kind) from error
        if inspect.iscoroutine(answer):
            answer.close()
        if not isinstance(answer, bool):
            raise CannotEvaluate(f"it gives a {type(answer).__name__} where True or False is needed")
        return answer


def _text(error: BaseException) -> str:
    try:
        return scrub(str(error).partition("\n")[0])[:200]
    except Exception:  # an error of theirs, with a text of theirs
        return ""


def callable_problems(value: object) -> Iterator[str]:
    """What is wrong with a condition that is no text."""
    if isinstance(value, Mapping):
        texts = isinstance(value.get("callable"), str) and isinstance(value.get("digest"), (str, type(None)))
        if not texts or not set(value) <= set(KEYS):
            yield "must be a condition in CEL, or a callable"
    elif inspect.iscoroutinefunction(value):
        yield "the callable must not be async"
    elif not callable(value) and not isinstance(value, Elsewhere):
        yield "must be text (a condition in CEL), or a callable"


def elsewhere(condition: Predicate | Elsewhere) -> Elsewhere:
    """What another process knows of it: its name, and a digest that changes with what it does, if to be had."""
    if isinstance(condition, Elsewhere):
        return condition
    kind = type(condition)
    module = getattr(condition, "__module__", None) or kind.__module__
    name = getattr(condition, "__qualname__", None) or kind.__qualname__
    return Elsewhere(f"{module}.{name}", _digest(condition))


def _digest(condition: Predicate) -> str | None:
    """Of the bytecode and the plain values that it was made with. The bytecode is that of a version of Python."""
    function = condition if inspect.isroutine(condition) else type(condition).__call__
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function):
        return None
    meaning = [_code(function.__code__), [_plain_values(values) for values in _values(function)]]
    return hashlib.sha256(canonical_json(meaning)).hexdigest()


def _values(function: FunctionType) -> Iterator[Mapping[str, Any]]:
    yield dict(enumerate(function.__defaults__ or ()))  # type: ignore[arg-type]
    yield function.__kwdefaults__ or {}
    try:
        closure = inspect.getclosurevars(function)
    except ValueError:  # a name that it will only get later
        return
    yield closure.nonlocals
    yield closure.globals


def _code(code: CodeType) -> list[Any]:
    return [code.co_code.hex(), list(code.co_names), [_constant(value) for value in code.co_consts]]


def _constant(value: object) -> Any:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return [_constant(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(repr(item) for item in value)
    return repr(value)


def _plain_values(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(value) for key, value in values.items()}


def _plain(value: object) -> Any:
    """The value if it is JSON, else its type: a text of it may differ from process to process."""
    try:
        canonical_json(value)
    except UnreadableArguments:
        return type(value).__name__
    return value
