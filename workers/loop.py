"""The one event loop of a worker process. Celery's threads hand coroutines to it and wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

import uvloop

Result = TypeVar("Result")


class LoopThread:
    """Starts with the process (after a fork, not before) and runs until closed."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs `work` on the loop and waits for it. Not to be called from the loop itself."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
