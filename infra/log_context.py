"""What every log line carries that is written meanwhile, whoever writes it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from structlog.contextvars import bound_contextvars


def logged_with(**ids: str | int) -> AbstractContextManager[None]:
    """These fields are on each line of this task, and of tasks and threads that it starts, until the end."""
    context: AbstractContextManager[None] = bound_contextvars(**ids)
    return context
