"""Traces, as the rest of Signoff knows them: off, and free, unless somebody asked for them.

One trace is one job, from its submission to its last effect: where it began stands in the job's row, and every run of
it goes on from there. Spans carry ids, names and outcomes, never arguments, results or messages.
"""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from importlib import import_module
from typing import Protocol
from uuid import UUID

from signoff.domain.errors import SettingsInvalid
from signoff.infra.settings import Settings

ADDRESSES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

log = logging.getLogger(__name__)

Value = str | int | float | bool


class Span(Protocol):
    """What is known only while it lasts."""

    def add(self, **facts: Value) -> None: ...


class Spans(Protocol):
    """Spans of the trace that is current; each becomes a child of the span around it."""

    def span(self, name: str, **facts: Value) -> AbstractContextManager[Span]: ...

    def past(self, name: str, start: datetime, end: datetime, **facts: Value) -> None:
        """One that is over already."""
        ...

    def traceparent(self, **facts: Value) -> str | None:
        """The span that is current, in W3C form; it is told the facts."""
        ...


class Tracing(Protocol):
    """Of one process: made after any fork."""

    is_on: bool

    def accepting(self, traceparent: str | None, door: str) -> AbstractContextManager[None]:
        """Around a submission, in the trace of its caller, if that sent one: its job goes on from here."""
        ...

    def running(self, traceparent: str | None, **facts: Value) -> AbstractContextManager[None]:
        """Around a run, in the trace of its job."""
        ...

    def close(self) -> None:
        """Sends what is left, for a moment. It may wait."""
        ...


class NoSpan:
    def add(self, **facts: Value) -> None:
        return None


class NoTracing:
    """Nothing is traced."""

    is_on = False

    def accepting(self, traceparent: str | None, door: str) -> AbstractContextManager[None]:
        return nullcontext()

    def running(self, traceparent: str | None, **facts: Value) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        return None


NO_TRACING = NoTracing()
_NOTHING = nullcontext[Span](NoSpan())
current_spans: ContextVar[Spans | None] = ContextVar("signoff_spans", default=None)


def span(name: str, **facts: Value) -> AbstractContextManager[Span]:
    """A span in the trace that is current; nothing where there is none."""
    spans = current_spans.get()
    return _NOTHING if spans is None else spans.span(name, **facts)


def past_span(name: str, start: datetime, end: datetime, **facts: Value) -> None:
    spans = current_spans.get()
    if spans is not None:
        spans.past(name, start, end, **facts)


def traceparent_of_new_job(job_id: UUID, agent: str) -> str | None:
    """Where the trace of a job begins that is being accepted; None if it has none."""
    spans = current_spans.get()
    return None if spans is None else spans.traceparent(job_id=str(job_id), agent=agent)


def start_tracing(settings: Settings) -> Tracing:
    """Raises SettingsInvalid if traces are asked for by a setting of ours and can't be had."""
    addressed = any(os.environ.get(name) for name in ADDRESSES)
    if not (addressed or settings.tracing):
        return NO_TRACING
    try:
        otel = import_module("signoff.infra.telemetry.otel")
    except ModuleNotFoundError as error:
        missing = "OpenTelemetry is not installed; it comes with the extra `signoff[otel]`"
        if settings.tracing:
            raise SettingsInvalid(f"SIGNOFF_TRACING is set, and {missing}") from error
        log.warning("not traced: %s", missing)
        return NO_TRACING
    tracing: Tracing = otel.start()
    return tracing
