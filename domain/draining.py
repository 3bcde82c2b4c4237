"""Asking workers to drain: they claim nothing more, give back what they run, and stay up idle until stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.canonical import scrub
from signoff.domain.errors import InvalidRequest, WorkerNotFound
from signoff.domain.operator_acts import Done, OperatorAct, OperatorActs, once


@dataclass(frozen=True, slots=True)
class Which:
    """The worker of this name; or those that serve this agent; with neither, all."""

    name: str | None = None
    agent: str | None = None

    @classmethod
    def wanted(cls, name: str | None, agent: str | None, everyone: bool) -> Self:
        """Exactly one of the three. Raises InvalidRequest."""
        if [name is not None, agent is not None, everyone].count(True) != 1:
            raise InvalidRequest("name one worker, an agent, or say all", field="all")
        if scrub(name or "") != (name or "") or scrub(agent or "") != (agent or ""):
            raise InvalidRequest("the name holds a NUL or a lone surrogate", field="name" if name else "agent")
        return cls(name, agent)

    @property
    def subject(self) -> str:
        return self.name or (f"workers of {self.agent}" if self.agent else "all workers")


class Workers(Protocol):
    async def ask_to_drain(self, name: str | None, agent: str | None, by: str) -> Sequence[str]:
        """Asks the worker of this name, those that serve this agent, or all that are there. Returns their names."""


class DrainingTransaction(Protocol):
    @property
    def operator_acts(self) -> OperatorActs: ...
    @property
    def workers(self) -> Workers: ...


class DrainingStore(Protocol):
    def begin(self) -> AbstractAsyncContextManager[DrainingTransaction]: ...


async def drain_workers(
    store: DrainingStore, who: Principal, which: Which, reason: str, request_id: str | None = None
) -> Done:
    """Asks them to drain; each hears of it within seconds. The outcome has their names, `workers`.

    Raises: RightMissing, WorkerNotFound (nobody of this name runs), InvalidRequest (no reason), IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    body = {"name": which.name, "agent": which.agent}
    act = OperatorAct(who, "worker.drain", which.subject, reason, request_id, body, None)
    async with store.begin() as tx:

        async def do() -> Mapping[str, Any]:
            asked = await tx.workers.ask_to_drain(which.name, which.agent, who.name)
            if which.name is not None and not asked:
                raise WorkerNotFound(f"no worker {which.name} is running")
            return {"workers": list(asked)}

        return await once(tx, act, do)
