"""How `signoff up` is told to stop: Ctrl-C, SIGTERM, or a closed terminal; and told again, to stop at once."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Self

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """The first signal is raised as KeyboardInterrupt, wherever we are; once we stop, one more only sets `hard`."""

    def __init__(self) -> None:
        self.hard = False
        self._stopping = False
        self._before: Mapping[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in NUMBERS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop(self) -> None:
        """From here on nothing interrupts us any more."""
        self._stopping = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            self.hard = True
            return
        self._stopping = True
        raise KeyboardInterrupt
