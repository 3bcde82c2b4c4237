"""A provider's export beside the ledger: what happened without being recorded, the reverse, and what happened twice.

Pure: rows of both go in, findings come out. Nothing here changes anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from signoff.domain.effects import EffectStatus

S = EffectStatus
MOST_SHOWN = 1000
KEY = re.compile(r"(op_[0-9a-f]{40})(?:\.([0-9]{1,9}))?")
MOST_LINES = 10
DENIES = frozenset({S.planned, S.failed, S.dead, S.cancelled, S.revoked})
"""What the ledger calls an effect that did not happen."""


class Difference(StrEnum):
    """How a provider's books and the ledger differ, or don't."""

    agrees = "agrees"
    applied_not_recorded = "applied_not_recorded"
    recorded_not_applied = "recorded_not_applied"
    applied_twice = "applied_twice"
    unknown_to_ledger = "unknown_to_ledger"
    open = "open"


@dataclass(frozen=True, slots=True)
class Record:
    """One row of an export. `key` is what we sent; `applied` is False for what the provider says it refused."""

    line: int
    key: str
    reference: str | None = None
    applied: bool = True

    @property
    def operation_id(self) -> str | None:
        """Of ours: `operation` or `operation.generation`. None for what we never sent."""
        found = KEY.fullmatch(self.key)
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class Entry:
    """An effect of the tools that the export is about, as the ledger has it."""

    operation_id: str
    tool: str
    status: EffectStatus
    provider_reference: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One operation on both sides. `settles`: the effect is in doubt, and the export answers that."""

    difference: Difference
    operation_id: str
    message: str
    tool: str | None = None
    status: EffectStatus | None = None
    references: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    settles: bool = False

    @property
    def contradicts(self) -> bool:
        """True if one of the two is wrong, whatever becomes known later."""
        if self.difference is Difference.applied_not_recorded:
            return self.status in DENIES
        return self.difference is Difference.recorded_not_applied

    def command(self) -> str | None:
        """What an operator would type to settle it by what the export says."""
        if not self.settles:
            return None
        reference = f" --reference {shlex.quote(self.references[0])}" if self.references else " --reference REFERENCE"
        return f"signoff effects resolve {self.operation_id} --applied{reference} --reason TEXT"


@dataclass(slots=True)
class Reconciliation:
    """All compared; those that agree are only counted, the first of the others are kept."""

    records: int = 0
    without_key: int = 0
    effects: int = 0
    counts: dict[Difference, int] = field(default_factory=lambda: dict.fromkeys(Difference, 0))
    found: list[Compared] = field(default_factory=list)
    settling: list[Compared] = field(default_factory=list)
    """Effects in doubt that the export answers, with the provider's reference."""

    @property
    def ok(self) -> bool:
        return not any(count for kind, count in self.counts.items() if kind not in (Difference.agrees, Difference.open))

    def add(self, compared: Compared) -> None:
        self.counts[compared.difference] += 1
        if compared.settles and compared.references:
            self.settling.append(compared)
        if compared.difference is not Difference.agrees and len(self.found) < MOST_SHOWN:
            self.found.append(compared)

    def document(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "records": self.records,
            "without_key": self.without_key,
            "effects": self.effects,
            "counts": {str(kind): count for kind, count in self.counts.items()},
            "findings": [
                {
                    "difference": str(one.difference),
                    "operation_id": one.operation_id,
                    "tool": one.tool,
                    "status": None if one.status is None else str(one.status),
                    "references": list(one.references),
                    "lines": list(one.lines),
                    "message": one.message,
                    "command": one.command(),
                }
                for one in self.found
            ],
        }


def compare(entry: Entry | None, records: Sequence[Record]) -> Compared:
    """One operation: its effect, if there is one, and all rows of the export about it, if there are any."""
    applied = [record for record in records if record.applied]
    references = tuple(dict.fromkeys(record.reference for record in applied if record.reference is not None))
    if entry is None:
        key = records[0].key
        said = "the provider applied it" if applied else "the provider refused it"
        kind = Difference.unknown_to_ledger if applied else Difference.agrees
        return Compared(kind, key, f"{said}, and the ledger does not know it", None, None, references, _lines(records))
    kind, message, settles = _judge(entry, applied, references)
    return Compared(kind, entry.operation_id, message, entry.tool, entry.status, references, _lines(records), settles)


def _judge(entry: Entry, applied: Sequence[Record], references: Sequence[str]) -> tuple[Difference, str, bool]:
    status = entry.status
    times = len(references) or len(applied)
    if times > 1:
        return Difference.applied_twice, f"the provider has it {times} times", False
    if applied and status is S.succeeded:
        ours = entry.provider_reference
        if ours is not None and references and ours != references[0]:
            return Difference.applied_twice, f"the ledger says {ours}, and the provider {references[0]}", False
        return Difference.agrees, "", False
    if applied:
        settles = status is S.in_doubt
        return Difference.applied_not_recorded, f"the provider applied it, and the ledger says {status}", settles
    if status is S.succeeded:
        return (
            Difference.recorded_not_applied,
            "the ledger says that it happened, and the export has nothing of it",
            False,
        )
    if status is S.in_doubt:
        # That the export does not show it proves nothing: it may end before, or the request be on its way.
        return Difference.open, "it is in doubt, and the export has nothing of it", False
    return Difference.agrees, "", False


def _lines(records: Sequence[Record]) -> tuple[int, ...]:
    return tuple(record.line for record in records[:MOST_LINES])
