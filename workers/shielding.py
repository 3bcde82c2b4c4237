"""Work that must end once begun: a transaction whose outcome would otherwise be unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


def is_cancelled() -> bool:
    """True if somebody cancels this task; False if the cancellation is what a call in it has come up with itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Like `await work`, but a cancellation, and each further one, waits until `work` has ended, and only then goes on.

    LangGraph cancels a node's siblings when one fails; a cancelled transaction may or may not have been committed.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise
