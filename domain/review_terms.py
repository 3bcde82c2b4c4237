"""What a rule asks of a review beyond one approval, as it is stored with each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from signoff.domain.ladders import Rung
from signoff.domain.policy import Judgement
from signoff.domain.verdicts import AtDeadline


@dataclass(frozen=True, slots=True)
class ReviewTerms:
    """`approvals` different people must allow the call; `hidden` are paths of arguments that most don't see.

    `ladder` are reminders and escalations by their time; `escalate_to` are who is asked after the deadline, if it is to
    be escalated. An edit may change the call to one of `tool_changes`. `requested_by` is the operator who asked for a
    call that no agent made: somebody else decides.
    """

    approvals: int = 1
    hidden: tuple[str, ...] = ()
    ladder: tuple[Rung, ...] = ()
    at_deadline: AtDeadline = AtDeadline.reject
    escalate_to: tuple[str, ...] = ()
    tool_changes: tuple[str, ...] = ()
    edits_need_another: bool = False
    requested_by: str | None = None

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        return cls(
            approvals=judgement.approvals,
            hidden=judgement.hidden,
            ladder=judgement.ladder,
            at_deadline=judgement.at_deadline,
            escalate_to=judgement.escalate_to,
            tool_changes=judgement.tool_changes,
            edits_need_another=judgement.edits_need_another,
        )

    def with_last_rung(self, deadline_seconds: float | None) -> Self:
        """With the deadline as the ladder's last rung, where it escalates: others are asked instead."""
        if self.at_deadline is not AtDeadline.escalate or deadline_seconds is None:
            return self
        return replace(self, ladder=(*self.ladder, Rung(deadline_seconds, self.escalate_to, replace=True)))

    def to_dict(self) -> dict[str, Any] | None:
        """JSON types alone, without what is at its default; None if all is."""
        plain = {
            "approvals": self.approvals,
            "hidden": list(self.hidden),
            "ladder": [rung.to_dict() for rung in self.ladder],
            "at_deadline": str(self.at_deadline),
            "escalate_to": list(self.escalate_to),
            "tool_changes": list(self.tool_changes),
            "edits_need_another": self.edits_need_another,
            "requested_by": self.requested_by,
        }
        return {name: value for name, value in plain.items() if value != _PLAIN_DEFAULTS[name]} or None

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any] | None) -> Self:
        full = {**_PLAIN_DEFAULTS, **(plain or {})}
        return cls(
            approvals=full["approvals"],
            hidden=tuple(full["hidden"]),
            ladder=tuple(Rung.from_dict(rung) for rung in full["ladder"]),
            at_deadline=AtDeadline(full["at_deadline"]),
            escalate_to=tuple(full["escalate_to"]),
            tool_changes=tuple(full["tool_changes"]),
            edits_need_another=full["edits_need_another"],
            requested_by=full["requested_by"],
        )


_PLAIN_DEFAULTS: Mapping[str, Any] = {
    "approvals": 1,
    "hidden": [],
    "ladder": [],
    "at_deadline": "reject",
    "escalate_to": [],
    "tool_changes": [],
    "edits_need_another": False,
    "requested_by": None,
}
