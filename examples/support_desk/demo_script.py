"""What the demo submits, and what is decided about it where nobody is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

APPROVE: dict[str, Any] = {"type": "approve"}


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A request, and by tool the decision that the demo proposes or takes."""

    title: str
    input: str
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the outside world must have seen if the plan was followed."""

    refunds: tuple[tuple[str, float], ...]
    mails: tuple[str, ...]


JOBS = (
    DemoJob(
        "passes without review",
        "Where is order A-1004? Refund 12.50 on order A-1003 because the jug came broken.",
    ),
    DemoJob(
        "approved",
        "Refund 42.50 on order A-1001 because the parcel came a week late, and write to ada@example.com that the money "
        "is on its way.",
        {"refund": APPROVE, "send_email": APPROVE},
    ),
    DemoJob(
        "edited",
        "Refund 89.90 on order A-1002 because it grinds unevenly.",
        {"refund": {"type": "edit", "args": {"amount": 45.0}}},
    ),
    DemoJob(
        "rejected",
        "Email bo@example.com that his warranty has ended.",
        {"send_email": {"type": "reject", "message": "His warranty runs until next year.", "then": "stop"}},
    ),
    DemoJob(
        "answered",
        "The customer of A-1004 says: I want my money back.",
        {"ask_customer": {"type": "respond", "message": "No need any more, I only want to know when it comes."}},
    ),
)
SAME_EVERY_TIME = Expected(
    refunds=(("A-1001", 42.5), ("A-1002", 45.0), ("A-1003", 12.5)),
    mails=("ada@example.com",),
)
