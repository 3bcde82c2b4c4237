"""The Celery workers and the agents. An agent author takes what a tool and an agent need from here."""

from signoff.workers.authoring import Agent
from signoff.workers.current import current_effect
from signoff.workers.declaring import Compensation, ProbeAnswer, effect
from signoff.workers.http_outcomes import http_outcome, read_outcome
from signoff.workers.outcomes import Changed, NotApplied, Refused, Rejected, Unknown

__all__ = [
    "Agent",
    "Changed",
    "Compensation",
    "NotApplied",
    "ProbeAnswer",
    "Refused",
    "Rejected",
    "Unknown",
    "current_effect",
    "effect",
    "http_outcome",
    "read_outcome",
]
