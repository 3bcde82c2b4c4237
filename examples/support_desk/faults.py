"""Faults that a test asks an outside service for: each counts down, so that what happens is fixed beforehand."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    delay_before = "delay_before"  # wait, then apply and answer
    delay_after = "delay_after"  # apply, wait, then answer
    drop_reply = "drop_reply"  # apply, and close the connection without an answer
    error_before = "error_before"  # do nothing and answer 500; the key stays unused
    error_after = "error_after"  # apply and answer 500
    decline = "decline"  # do nothing and answer 402


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault for the next `times` requests about `about` (an order or an address), or about anything."""

    kind: FaultKind
    times: int = 1
    about: str | None = None
    seconds: float = 0.0

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Fault:
        """Raises ValueError or TypeError for what is no fault."""
        return cls(**{**raw, "kind": FaultKind(str(raw.get("kind")))})


class Faults:
    """The faults that are due, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: list[Fault] = []

    def ask(self, fault: Fault) -> None:
        with self._lock:
            self._due.extend([fault] * fault.times)

    def take(self, about: str) -> Fault | None:
        """The next fault for a request about this, which is used up by that."""
        with self._lock:
            found = next((fault for fault in self._due if fault.about in (None, about)), None)
            if found is not None:
                self._due.remove(found)
            return found
