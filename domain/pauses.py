"""Why a run stopped before its end. The graph's interrupts carry these, in this form and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from signoff.domain.errors import CannotResume


@dataclass(frozen=True, slots=True)
class ReviewPause:
    """Calls that need a person.

    The interrupt names their operations alone; a park wants each item as the gate judged it, from the graph's state.
    `again` is there for a call that goes back to review: what is said of it now in place of that. `calls` are the items
    in full where the graph is its author's own.
    """

    interrupt_id: str
    items: tuple[Mapping[str, Any], ...]
    policy_digest: str
    again: Mapping[str, Any] | None = None
    calls: tuple[Mapping[str, Any], ...] = ()
    kind: Literal["review"] = "review"


@dataclass(frozen=True, slots=True)
class HoldPause:
    """An effect in doubt, or dead: an operator has to settle it."""

    interrupt_id: str
    operation_id: str
    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True)
class WaitPause:
    """An effect that may be tried again at `retry_at`."""

    interrupt_id: str
    operation_id: str
    retry_at: datetime
    kind: Literal["wait"] = "wait"


Pause = ReviewPause | HoldPause | WaitPause


def read_pause(interrupt_id: str, value: Any) -> Pause:
    """Raises CannotResume for an interrupt that is not ours."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "review":
        items = tuple({"operation_id": operation} for operation in value["operations"])
        return ReviewPause(
            interrupt_id, items, value["policy_digest"], value.get("again"), tuple(value.get("calls", ()))
        )
    if kind == "hold":
        return HoldPause(interrupt_id, value["operation_id"])
    if kind == "wait":
        return WaitPause(interrupt_id, value["operation_id"], datetime.fromisoformat(value["retry_at"]))
    raise CannotResume(f"the run paused with an interrupt that is not of this product: {str(value)[:200]}")
