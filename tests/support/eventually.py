"""Waiting for something that other processes bring about."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


@overload
async def eventually(
    fn: Callable[[], Awaitable[T | None]], *, within_seconds: float = ..., message: str | Callable[[], str] = ...
) -> T: ...


@overload
async def eventually(
    fn: Callable[[], T | None], *, within_seconds: float = ..., message: str | Callable[[], str] = ...
) -> T: ...


async def eventually(
    fn: Callable[[], Any], *, within_seconds: float = 10.0, message: str | Callable[[], str] = ""
) -> Any:
    """The first true answer of `fn`, a function or a coroutine function; fails with `message` if none comes in time.

    What `fn` raises is raised; the last answer is always asked for after the deadline.
    """
    deadline = time.monotonic() + within_seconds
    pause = _FIRST_PAUSE
    while True:
        late = time.monotonic() > deadline
        answer = await _ask(fn)
        if answer:
            return answer
        if late:
            raise AssertionError(_failure(fn, within_seconds, message, answer))
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def eventually_sync(fn: Callable[[], T], *, within_seconds: float = 10.0, message: str | Callable[[], str] = "") -> T:
    """`eventually` for tests without an event loop."""
    return asyncio.run(eventually(fn, within_seconds=within_seconds, message=message))


async def _ask(fn: Callable[[], Any]) -> Any:
    answer = fn()
    if inspect.isawaitable(answer):
        return await answer
    return answer


def _failure(fn: Callable[[], object], seconds: float, message: str | Callable[[], str], answer: object) -> str:
    text = message() if callable(message) else message
    return f"{text or getattr(fn, '__name__', fn)}: not within {seconds} s; the last answer was {answer!r}"
