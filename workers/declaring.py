"""What the author of a tool declares about its effects: `@effect("keyed", window=…)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from langchain_core.tools import BaseTool

from signoff.domain.effects import AtEnd, EffectClass, Found, Terms
from signoff.domain.errors import AgentInvalid
from signoff.workers.effects_in_nodes import run_in_node

DECLARED_KEY = "signoff_effect"
LONGEST_HORIZON = Terms().max_elapsed
Tool = TypeVar("Tool", bound=BaseTool)


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What the provider says of an operation: `result` is what the tool would have returned, if it is known."""

    found: Found | str
    reference: str | None = None
    result: Any = None
    message: str | None = None


Probe = Callable[[Mapping[str, Any]], Awaitable[ProbeAnswer] | ProbeAnswer]
"""Asks the provider about `current_effect()`; given the arguments of the call."""
Precheck = Callable[[Mapping[str, Any]], Awaitable[None] | None]
"""Raises Changed if what the call relies on is no longer so; given the arguments of the call."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """The tool that undoes an effect. `args` says where each of its arguments comes from, as a dotted path: from
    `args` of the effect, its `result` (if that is JSON), or its `reference`."""

    tool: str
    args: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declared:
    """All that a tool declares. `destination` names the argument (a dotted path) that says where the effect goes."""

    terms: Terms = field(default_factory=Terms)
    destination: str | None = None
    probe: Probe | None = None
    precheck: Precheck | None = None
    compensation: Compensation | None = None


def declared(tool: BaseTool) -> Declared:
    """What the tool declares; of one that declares nothing, the strictest."""
    found = (tool.metadata or {}).get(DECLARED_KEY)
    return found if isinstance(found, Declared) else Declared()


def terms_of(tool: BaseTool) -> Terms:
    return declared(tool).terms


class EffectDeclaration:
    """`@effect(…)` declares what may be done with a tool's effects."""

    def __call__(
        self,
        effect_class: str,
        *,
        window: timedelta | None = None,
        margin: timedelta | None = None,
        probe: Probe | None = None,
        quiet_period: timedelta | None = None,
        max_attempts: int | None = None,
        max_elapsed: timedelta | None = None,
        first_delay: timedelta | None = None,
        longest_delay: timedelta | None = None,
        on_refusal: str | None = None,
        on_doubt: str | None = None,
        on_dead: str | None = None,
        retention: timedelta | None = None,
        max_result_bytes: int | None = None,
        provider: str | None = None,
        max_concurrent: int | None = None,
        per_minute: float | None = None,
        circuit_failures: int | None = None,
        circuit_open: timedelta | None = None,
        destination: str | None = None,
        precheck: Precheck | None = None,
        compensate: Compensation | None = None,
    ) -> Callable[[Tool], Tool]:
        """Declares a tool's effect class, and what else of `Terms` differs from the default.

        `read`: may be repeated. `transactional`: a row in our own database, written through
        `current_effect().connection`. `idempotent`: a repeat is harmless by nature. `keyed`: the provider honours
        `current_effect().idempotency_key` for `window`. `queryable`: `probe` asks the provider what became of it, and
        its "not found" counts once the last dispatch is `quiet_period` ago. `opaque`, the default: a person decides.

        `on_refusal`, `on_doubt`, `on_dead`: "tell_agent" or "hold", where an effect ends so. `precheck` looks, right
        before the effect leaves, whether it may still. `compensate` says what undoes it.

        Raises:
            AgentInvalid: what does not go together, with what was expected.
        """
        given: dict[str, Any] = {
            "window": window,
            "margin": margin,
            "quiet_period": quiet_period,
            "max_attempts": max_attempts,
            "max_elapsed": max_elapsed,
            "first_delay": first_delay,
            "longest_delay": longest_delay,
            "on_refusal": _at_end("on_refusal", on_refusal),
            "on_doubt": _at_end("on_doubt", on_doubt),
            "on_dead": _at_end("on_dead", on_dead),
            "retention": retention,
            "max_result_bytes": max_result_bytes,
            "provider": provider,
            "max_concurrent": max_concurrent,
            "per_minute": per_minute,
            "circuit_failures": circuit_failures,
            "circuit_open": circuit_open,
        }
        set_here = {name: value for name, value in given.items() if value is not None}
        terms = replace(Terms(effect_class=_class(effect_class)), **set_here)
        if max_elapsed is None and terms.window is not None:
            terms = replace(terms, max_elapsed=max(timedelta(), min(LONGEST_HORIZON, terms.window - terms.margin)))
        if problem := _problem(terms, probe):
            raise AgentInvalid(problem)
        found = Declared(terms, destination, probe, precheck, compensate)

        def declare(tool: Tool) -> Tool:
            tool.metadata = {**(tool.metadata or {}), DECLARED_KEY: found}
            return tool

        return declare

    async def run(self, name: str, args: Mapping[str, Any], *, key: str) -> Any:
        """Carries out one effect from a node of an author's own graph: of the tool `name`, with the policy, the people
        and the ledger of any other call. Returns the tool's result, or the words that a reviewer gives in its place.

        `key` is the author's own, and stands for this one effect in its thread: with it, a node that runs again after a
        pause or a crash is served what has happened already. A call that needs a person pauses the node right here.

        Raises:
            Rejected: a person said no. Refused: the policy does not allow it, or the provider did nothing.
            DigestMismatch: the key was used for another call.
            InvalidRequest: no such tool, or arguments that don't fit it.
            RuntimeError: outside a run of Signoff's.
        """
        return await run_in_node(name, args, key)


effect = EffectDeclaration()


def _class(word: str) -> EffectClass:
    try:
        return EffectClass(word)
    except ValueError:
        raise AgentInvalid(f"{word!r} is not an effect class; it is one of {', '.join(EffectClass)}") from None


def _at_end(name: str, word: str | None) -> AtEnd | None:
    if word is None:
        return None
    try:
        return AtEnd(word)
    except ValueError:
        raise AgentInvalid(f"{name} is {word!r}; it is one of {', '.join(AtEnd)}") from None


def _problem(terms: Terms, probe: Probe | None) -> str | None:
    """What does not go together, or None."""
    if (terms.effect_class is EffectClass.keyed) != (terms.window is not None):
        return "a 'keyed' effect needs a window (how long the provider honours a key), and no other class has one"
    if (terms.effect_class is EffectClass.queryable) != (probe is not None and terms.quiet_period is not None):
        return (
            "a 'queryable' effect needs a probe (which asks the provider) and a quiet_period (longer than any request"
            " of yours may live), and no other class has them"
        )
    if terms.effect_class is not EffectClass.queryable and (probe is not None or terms.quiet_period is not None):
        return f"only a 'queryable' effect has a {'probe' if probe is not None else 'quiet_period'}"
    if terms.window is not None and terms.max_elapsed + terms.margin > terms.window:
        return (
            f"its retries may go on for {terms.max_elapsed}, but its key is honoured for {terms.window}, of which"
            f" {terms.margin} are kept as a margin: shorten max_elapsed, or the class must be 'queryable' or 'opaque'"
        )
    return _amount_problem(terms)


def _amount_problem(terms: Terms) -> str | None:
    counts = {"max_attempts": terms.max_attempts, "max_result_bytes": terms.max_result_bytes}
    limits = {"max_concurrent": terms.max_concurrent, "per_minute": terms.per_minute}
    for name, value in {**counts, **limits}.items():
        if value is not None and value <= 0:
            return f"{name} is {value}; it must be more than 0"
    spans = ("margin", "quiet_period", "max_elapsed", "first_delay", "longest_delay", "retention", "circuit_open")
    for name in spans:
        span = getattr(terms, name)
        if span is not None and span < timedelta():
            return f"{name} is {span}; it can't be negative"
    return "circuit_failures can't be negative" if terms.circuit_failures < 0 else None
