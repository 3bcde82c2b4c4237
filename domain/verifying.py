"""What `signoff verify` finds: for each thing that must hold, how much was looked at, and what does not hold.

The invariants are I1 to I12 of the design. `NOT_TOLD` says what no database can show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_SHOWN = 100

INVARIANTS: Mapping[str, str] = {
    "I1": "a decision is used once, or its review has ended visibly",
    "I2": "a review resumes its job once, and each decision stands for one effect",
    "I3": "what ran is what was approved",
    "I4": "an effect has happened at most once, as its provider says",
    "I5": "the ledger claims no more than is known",
    "I6": "nothing waits for what is there already",
    "I7": "nothing was written under an old fence; a thread has one history",
    "I8": "what has ended was changed by recorded acts alone",
    "I9": "what happened was told",
    "I10": "only those decided who may, and nobody twice",
    "I11": "each act is in the audit, and the audit is as it was written",
    "I12": "limits were kept",
}
NOT_TOLD = (
    "I4: that it happened once, only the provider's own books say: --provider FILE --tool TOOL",
    "I5: the same for what the ledger says of effects that did not happen",
    "I9: what was sent to Redis and to webhooks has arrived: receivers know; events past their retention are gone",
    "I10: whether who decided had the groups and grants then: authority is looked up again at each dispatch",
    "I12: memory, connections and the length of queues; how often a tool may be tried: the tool's code says",
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that does not hold: of what (an id), and how."""

    subject: str
    message: str


@dataclass(slots=True)
class Checked:
    """One check: how many rows it looked at, how many don't hold, and the first of them."""

    invariant: str
    name: str
    rows: int = 0
    found: int = 0
    violations: list[Violation] = field(default_factory=list)

    def add(self, subject: str, message: str) -> None:
        self.found += 1
        if len(self.violations) < MOST_SHOWN:
            self.violations.append(Violation(subject, message))

    def document(self) -> dict[str, Any]:
        shown = [{"subject": one.subject, "message": one.message} for one in self.violations]
        return {
            "invariant": self.invariant,
            "name": self.name,
            "rows": self.rows,
            "found": self.found,
            "violations": shown,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All checks, in the order in which they were made."""

    checks: tuple[Checked, ...]

    @property
    def ok(self) -> bool:
        return not any(check.found for check in self.checks)

    def document(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "checks": [check.document() for check in self.checks],
            "not_checked": list(NOT_TOLD),
        }
