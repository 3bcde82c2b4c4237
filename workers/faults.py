"""Named points at which a test may stop, kill or fail a worker. In production nothing waits here."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Point(StrEnum):
    claimed = "claimed"
    before_flush = "before_flush"
    after_flush = "after_flush"
    before_dispatch = "before_dispatch"
    after_dispatch = "after_dispatch"
    after_answer = "after_answer"
    before_record = "before_record"
    after_record = "after_record"
    before_park = "before_park"
    after_park = "after_park"
    before_finish = "before_finish"
    after_finish = "after_finish"


class Faults(Protocol):
    async def reach(self, point: Point) -> None: ...


class NoFaults:
    async def reach(self, point: Point) -> None:
        return None
