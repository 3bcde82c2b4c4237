"""Which run the nodes of a graph are in: how `effect.run` finds the executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from signoff.workers.current import is_in_effect


class RunsEffects(Protocol):
    async def run(self, name: str, args: Mapping[str, Any], key: str) -> Any: ...


_current: ContextVar[RunsEffects] = ContextVar("signoff_runs_effects")


@contextmanager
def effects_by(run: RunsEffects) -> Iterator[None]:
    """Makes `effect.run` work inside, in every node."""
    token = _current.set(run)
    try:
        yield
    finally:
        _current.reset(token)


async def run_in_node(name: str, args: Mapping[str, Any], key: str) -> Any:
    """Raises RuntimeError outside a run of Signoff's, and inside a tool: an effect has no effects of its own."""
    if is_in_effect():
        raise RuntimeError("effect.run() is for nodes, not for tools: a tool is one effect")
    try:
        run = _current.get()
    except LookupError:
        raise RuntimeError("effect.run() is for the nodes of an agent that Signoff runs") from None
    return await run.run(name, args, key)
