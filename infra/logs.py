"""Structured logs: an event, ids as fields; never a token, a password or a body."""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from signoff.infra.settings import Settings

HIDDEN = "[hidden]"
SECRET_FIELDS = frozenset({"authorization", "body", "password", "secret", "token"})
SECRETS = re.compile(r"\b(?:sgn_|whsec_)[A-Za-z0-9+/=_-]+|(?<=://)[^\s/@]*:[^\s/@]*(?=@)")
QUIET = ("httpx", "httpcore", "alembic", "uvicorn.access")


def configure_logs(settings: Settings) -> None:
    """Sends what structlog and `logging` are told to standard error, as JSON lines or for a console."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(settings.log_format)],
        )
    )
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def hide_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Hides fields that hold secrets by name, and tokens and passwords wherever they stand in a text."""
    return {key: HIDDEN if key.lower() in SECRET_FIELDS else _hidden(value) for key, value in event.items()}


def _rendering(form: str) -> list[Processor]:
    # Tracebacks without local variables: those hold bodies and tokens.
    if form == "console":
        plain = structlog.dev.plain_traceback
        return [hide_secrets, structlog.dev.ConsoleRenderer(exception_formatter=plain)]
    return [structlog.processors.format_exc_info, hide_secrets, structlog.processors.JSONRenderer(default=str)]


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return SECRETS.sub(HIDDEN, value)
    if isinstance(value, MutableMapping):
        return hide_secrets(None, "", dict(value))
    if isinstance(value, (list, tuple)):
        return [_hidden(item) for item in value]
    return value
