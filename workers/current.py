"""The effect that a tool carries out, as the tool may know it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection


@dataclass(frozen=True, slots=True)
class CurrentEffect:
    """What a tool may know of the effect that it carries out.

    `idempotency_key` is what the provider is sent: the same for every attempt, new only when an operator
    sends a definitely failed effect again.
    """

    operation_id: str
    idempotency_key: str
    attempt: int
    transaction: AsyncConnection[Any] | None = None
    references: list[str] = field(default_factory=list)

    def refer_to(self, reference: str) -> None:
        """Keeps how the provider calls what it did: the ledger shows it, and an export is compared by it."""
        self.references.append(reference)

    @property
    def connection(self) -> AsyncConnection[Any]:
        """For a `transactional` tool: our own connection, in the transaction that records the effect.

        What is written through it is committed with the ledger's row, or not at all. Its rows are dicts.

        Raises:
            RuntimeError: the tool is not declared `transactional`.
        """
        if self.transaction is None:
            raise RuntimeError("only a tool that is declared 'transactional' has a connection")
        return self.transaction


_current: ContextVar[CurrentEffect] = ContextVar("signoff_current_effect")


def current_effect() -> CurrentEffect:
    """The effect that this tool call carries out; in a probe, the one that is asked about.

    Raises:
        RuntimeError: called outside a tool that Signoff runs.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("current_effect() is for tools that Signoff runs") from None


def is_in_effect() -> bool:
    """True inside a tool call that carries out an effect."""
    return _current.get(None) is not None


@contextmanager
def running(current: CurrentEffect) -> Iterator[None]:
    """Makes `current` what current_effect() returns inside."""
    token = _current.set(current)
    try:
        yield
    finally:
        _current.reset(token)
