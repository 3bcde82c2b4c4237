"""Traces by OpenTelemetry. Loaded only where traces are asked for: nothing but `tracing` knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from threading import Thread

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from signoff.infra.telemetry.tracing import Value, current_spans

LEAVING_SECONDS = 3.0
PREFIX = "signoff."

_W3C = TraceContextTextMapPropagator()


def start() -> OtelTracing:
    """With a thread of its own that sends spans to OTLP's address, as its environment variables say."""
    named = Resource({SERVICE_NAME: "signoff"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracing(provider)


class OtelTracing:
    is_on = True

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("signoff", version("signoff"))

    @contextmanager
    def accepting(self, traceparent: str | None, door: str) -> Iterator[None]:
        with self._entered("accept job", SpanKind.PRODUCER, traceparent, door=door):
            yield

    @contextmanager
    def running(self, traceparent: str | None, **facts: Value) -> Iterator[None]:
        with self._entered("run job", SpanKind.CONSUMER, traceparent, **facts):
            yield

    @contextmanager
    def span(self, name: str, **facts: Value) -> Iterator[_Span]:
        with self._opened(name, SpanKind.INTERNAL, None, **facts) as opened:
            yield _Span(opened)

    def past(self, name: str, start: datetime, end: datetime, **facts: Value) -> None:
        begun = self._tracer.start_span(name, attributes=_attributes(facts), start_time=_nanoseconds(start))
        begun.end(end_time=_nanoseconds(end))

    def traceparent(self, **facts: Value) -> str | None:
        current = trace.get_current_span()
        current.set_attributes(_attributes(facts))
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get("traceparent")

    def close(self) -> None:
        # Where nobody answers it would try for half a minute.
        leaving = Thread(target=self._provider.shutdown, name="signoff-traces", daemon=True)
        leaving.start()
        leaving.join(LEAVING_SECONDS)

    @contextmanager
    def _entered(self, name: str, kind: SpanKind, traceparent: str | None, **facts: Value) -> Iterator[None]:
        # Whatever a caller has sent: what can't be read begins a trace.
        sent = {"traceparent": traceparent} if isinstance(traceparent, str) else {}
        parent = _W3C.extract(sent, context=Context())
        with self._opened(name, kind, parent, **facts):
            token = current_spans.set(self)
            try:
                yield
            finally:
                current_spans.reset(token)

    @contextmanager
    def _opened(self, name: str, kind: SpanKind, parent: Context | None, **facts: Value) -> Iterator[Span]:
        # An error's message may quote arguments: its type alone is told.
        opening = self._tracer.start_as_current_span(
            name, parent, kind, _attributes(facts), record_exception=False, set_status_on_exception=False
        )
        with opening as opened:
            try:
                yield opened
            except BaseException as error:
                opened.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise


class _Span:
    def __init__(self, span: Span) -> None:
        self._span = span

    def add(self, **facts: Value) -> None:
        self._span.set_attributes(_attributes(facts))


def _attributes(facts: dict[str, Value]) -> dict[str, Value]:
    return {PREFIX + name: value for name, value in facts.items()}


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
