"""What a soak is made of, all of it from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TOOLS = ("pay", "pay", "book", "mail", "note")


@dataclass(frozen=True, slots=True)
class Plan:
    """How many jobs in how many seconds of faults, and how likely which fault is."""

    seed: int
    jobs: int
    seconds: float
    workers: int = 3
    lost_commits: float = 0.01
    provider_faults: float = 0.15
    seconds_between_blows: float = 3.0
    seconds_to_recover: float = 240.0
    most_open_jobs: int = 150


@dataclass(frozen=True, slots=True)
class Wish:
    """A job as its producer submits it."""

    key: str
    calls: list[tuple[str, dict[str, Any]]]
    thread_id: str | None
    is_cancelled: bool


def wishes(plan: Plan) -> Iterator[Wish]:
    """The jobs of a soak, the same for the same seed."""
    for number in range(plan.jobs):
        chance = random.Random(f"{plan.seed} job {number}")
        names = [chance.choice(TOOLS) for _ in range(chance.choice([1, 1, 2, 3, 4]))]
        calls = [(name, _args(name, f"{number}-{place}", chance)) for place, name in enumerate(names)]
        # Some threads get several jobs, which run one after the other.
        thread = f"soak-{plan.seed}-{number // 4}" if number % 20 < 4 else None
        yield Wish(f"soak-{plan.seed}-{number}", calls, thread, chance.random() < 0.02)


def _args(tool: str, ref: str, chance: random.Random) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if tool == "pay":
        more["amount"] = float(chance.randint(1, 90))
    elif tool == "note":
        more["text"] = "noted"
    return {"ref": ref, **more, "ask": chance.random() < 0.7}
