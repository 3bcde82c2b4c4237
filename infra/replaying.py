"""Applying a plan of replays: item by item, no faster than asked for, until it is done or somebody stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from signoff.domain.authority import Principal
from signoff.domain.replaying import Applied, Checked, apply_entry
from signoff.infra.services import Services


@dataclass(frozen=True, slots=True)
class Pace:
    """At most so many a second (None: no limit), and whether to go on: asked before each item."""

    per_second: float | None = None
    is_stopped: Callable[[], bool] = lambda: False


async def apply_plan(
    services: Services,
    checked: Checked,
    who: Principal,
    reason: str,
    pace: Pace,
    on_result: Callable[[Applied], None] = lambda _: None,
) -> list[Applied]:
    """What became of each item, as far as it got. Applied again it goes on where it stopped: nothing is done twice."""
    results: list[Applied] = []
    environment = services.settings.environment
    for entry in checked.part:
        if pace.is_stopped():
            break
        if results and pace.per_second is not None:
            await asyncio.sleep(1 / pace.per_second)
        found = await apply_entry(services.store, services.hints, checked, entry, who, reason, environment=environment)
        on_result(found)
        results.append(found)
    return results
