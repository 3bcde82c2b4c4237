"""Holding effects back by hand: pauses of everything, of an agent, of a tool; and circuits that an operator closes.

A pause stops dispatch and nothing else: jobs run, reviews are asked for and decided. What is being sent when it begins
still leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.canonical import scrub
from signoff.domain.errors import (
    AgentNotFound,
    InvalidRequest,
    PauseEnded,
    PauseNotFound,
    ProviderNotFound,
    ToolNotFound,
)
from signoff.domain.events import EventType, NewEvent
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.operator_acts import Done, OperatorAct, OperatorActs, once
from signoff.domain.ports import Events


@dataclass(frozen=True, slots=True)
class Scope:
    """Which effects: of this agent, of this tool, of this tool of this agent; with neither all. Raises
    InvalidRequest."""

    agent: str | None = None
    tool: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("agent", self.agent), ("tool", self.tool)):
            if value is not None and not (
                value.strip() and len(value) <= MAX_NAME_CHARACTERS and scrub(value) == value
            ):
                raise InvalidRequest(f"'{name}' must be text of 1 to {MAX_NAME_CHARACTERS} characters", field=name)

    @classmethod
    def wanted(cls, agent: str | None, tool: str | None, everything: bool) -> Self:
        """Everything only where that is said, and nothing else. Raises InvalidRequest."""
        if everything == (agent is not None or tool is not None):
            raise InvalidRequest("name an agent, a tool or both; or say everything", field="everything")
        return cls(agent, tool)

    def view(self) -> dict[str, str | None]:
        return {"agent": self.agent, "tool": self.tool}


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause as it was written."""

    id: UUID
    scope: Scope
    ended_by: str | None


class Pauses(Protocol):
    async def knows(self, scope: Scope) -> str | None:
        """Which of the scope's names no worker ever served: `agent` or `tool`; None if both are known."""

    async def add(self, pause_id: UUID, scope: Scope, reason: str, by: str) -> None: ...

    async def under_way(self, scope: Scope) -> int:
        """How many of its effects are being sent now."""

    async def lock(self, pause_id: UUID) -> Pause | None: ...

    async def end(self, pause_id: UUID, by: str) -> None: ...

    async def wake_paused(self, per_second: float | None) -> int:
        """Makes due what no pause holds back any more: so many a second, or all at once. Returns how many effects."""


class Providers(Protocol):
    async def exists(self, name: str) -> bool: ...

    async def reset(self, name: str) -> bool:
        """Forgets its bad ends; True if that has closed its circuit."""

    async def wake_circuit(self) -> int:
        """Makes due what no circuit holds back any more. Returns how many effects."""


class HoldingTransaction(Protocol):
    @property
    def operator_acts(self) -> OperatorActs: ...
    @property
    def events(self) -> Events: ...
    @property
    def pauses(self) -> Pauses: ...
    @property
    def providers(self) -> Providers: ...


class HoldingStore(Protocol):
    def begin(self) -> AbstractAsyncContextManager[HoldingTransaction]: ...


async def pause_effects(
    store: HoldingStore, who: Principal, scope: Scope, reason: str, request_id: str | None = None
) -> Done:
    """Nothing of the scope is dispatched from now on, until the pause is ended. The outcome has `pause_id`, and
    `under_way`: how many calls are being sent at this moment.

    Raises: RightMissing, AgentNotFound, ToolNotFound, InvalidRequest (no reason), IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    subject = " of ".join(part for part in (scope.tool, scope.agent) if part) or "everything"
    act = OperatorAct(who, "pause.create", subject, reason, request_id, scope.view(), None)
    async with store.begin() as tx:

        async def do() -> Mapping[str, Any]:
            await _require_known(tx, scope)
            pause_id = uuid4()
            await tx.pauses.add(pause_id, scope, reason, who.name)
            return {"pause_id": str(pause_id), **scope.view(), "under_way": await tx.pauses.under_way(scope)}

        return await once(tx, act, do)


async def end_pause(
    store: HoldingStore,
    who: Principal,
    pause_id: UUID,
    reason: str,
    request_id: str | None = None,
    *,
    per_second: float | None = None,
) -> Done:
    """What it held back, and no other pause does, goes on: so many effects a second, or all at once. The outcome says
    how many that are.

    Raises: RightMissing, PauseNotFound, PauseEnded, InvalidRequest (no reason, a rate that is none),
    IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    if per_second is not None and not 0.001 <= per_second <= 10_000:
        raise InvalidRequest("'per_second' must be a number from 0.001 to 10000", field="per_second")
    act = OperatorAct(who, "pause.end", str(pause_id), reason, request_id, {"per_second": per_second}, None)
    async with store.begin() as tx:

        async def do() -> Mapping[str, Any]:
            pause = await tx.pauses.lock(pause_id)
            if pause is None:
                raise PauseNotFound(f"there is no pause {pause_id}")
            if pause.ended_by is not None:
                raise PauseEnded(f"{pause.ended_by} has ended the pause already", ended_by=pause.ended_by)
            await tx.pauses.end(pause_id, who.name)
            return {"pause_id": str(pause_id), "effects": await tx.pauses.wake_paused(per_second)}

        return await once(tx, act, do)


async def close_circuit(
    store: HoldingStore, who: Principal, name: str, reason: str, request_id: str | None = None
) -> Done:
    """Forgets the bad ends of a provider: whatever waits for it may try at once. `closed` says whether its circuit was
    open.

    Raises: RightMissing, ProviderNotFound, InvalidRequest (no reason), IdempotencyMismatch.
    """
    require_right(who, Right.operate)
    if scrub(name) != name:
        raise ProviderNotFound("no provider is called so")
    act = OperatorAct(who, "provider.close", name, reason, request_id, {}, None)
    async with store.begin() as tx:

        async def do() -> Mapping[str, Any]:
            if not await tx.providers.exists(name):
                raise ProviderNotFound(f"nothing is known of a provider {name}: it has no limits, and has never failed")
            closed = await tx.providers.reset(name)
            if closed:
                await tx.events.append(
                    NewEvent(EventType.provider_closed, f"providers/{name}", who.name, {"provider": name})
                )
            effects = await tx.providers.wake_circuit() if closed else 0
            return {"provider": name, "closed": closed, "effects": effects}

        return await once(tx, act, do)


async def _require_known(tx: HoldingTransaction, scope: Scope) -> None:
    unknown = await tx.pauses.knows(scope)
    if unknown == "agent":
        raise AgentNotFound(f"no worker serves the agent {scope.agent!r}")
    if unknown == "tool":
        of = f"the agent {scope.agent!r}" if scope.agent is not None else "any agent"
        raise ToolNotFound(f"no tool of {of} is called {scope.tool!r}")
