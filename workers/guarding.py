"""What stops a run from outside, and whether its lease surely holds."""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import Any


class Stop(StrEnum):
    """Why a run is stopped."""

    cancelled = "cancelled"  # its job shall be cancelled; a call that is under way may come back
    drained = "drained"  # its worker has to go
    late = "late"  # the wall-clock limit
    lost = "lost"  # others may have the job


class Guard:
    """Cancels the task of a run, once, and knows why. Its methods may be called from any thread.

    `cut_off` is set when nothing may be waited for any more: a call that is under way is left, and in doubt.
    """

    def __init__(self, task: asyncio.Task[Any], *, claimed_at: float, lease_seconds: float) -> None:
        self._task = task
        self._loop = task.get_loop()
        self._lease_seconds = lease_seconds
        self._renewed_at = claimed_at
        self._timers: list[asyncio.TimerHandle] = []
        self._leaving = False
        self._over = False
        self.reason: Stop | None = None
        self.cut_off = asyncio.Event()

    def surely_holds(self) -> bool:
        """False if this process stood still, or had no database, for a whole lease: others may be sending by now."""
        return self.reason is not Stop.lost and time.monotonic() < self._renewed_at + self._lease_seconds

    def renew(self, at: float) -> None:
        self._renewed_at = at

    def stop(self, reason: Stop) -> None:
        self._loop.call_soon_threadsafe(self._stop, reason)

    def stop_after(self, seconds: float, reason: Stop) -> None:
        self._loop.call_soon_threadsafe(self._stop_after, seconds, reason)

    def leave(self) -> None:
        """The run ends by itself from here on: a stop still cuts calls off, and lets the task be. On the loop only."""
        self._leaving = True

    def end(self) -> None:
        """The run is over: from here on nothing stops the task, which may run another job. On the loop only."""
        self._over = True
        for timer in self._timers:
            timer.cancel()

    def _stop_after(self, seconds: float, reason: Stop) -> None:
        if not self._over:
            self._timers.append(self._loop.call_later(seconds, self._stop, reason))

    def _stop(self, reason: Stop) -> None:
        if self._over:
            return
        if reason is not Stop.cancelled:
            self.cut_off.set()
        if self.reason is None and not self._leaving:
            self._task.cancel()
        if self.reason is None or reason is Stop.lost:
            self.reason = reason


def uncancel() -> None:
    """The task goes on, after a cancellation that it knows the reason of."""
    task = asyncio.current_task()
    assert task is not None
    while task.cancelling():
        task.uncancel()
