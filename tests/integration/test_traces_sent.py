"""Traces reach whatever listens at OTLP's address, before the process that made them has left."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import NoHints
from signoff.infra.settings import Settings
from signoff.infra.telemetry.tracing import span

pytestmark = pytest.mark.anyio


class Collector(HTTPServer):
    """Keeps what is sent to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.taken: list[tuple[str, ExportTraceServiceRequest]] = []


class _Taking(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.taken.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_spans_are_sent_before_the_process_ends(
    collector: Collector, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    addresses = Addresses(database_url, "redis://127.0.0.1:1")
    async with open_services(Settings(), addresses, hints=NoHints(), pool_size=1) as services:
        with services.tracing.running(None, job_id="job-1"), span("call model"):
            pass
    ((path, request),) = collector.taken
    assert path == "/v1/traces"
    (resource,) = request.resource_spans
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert named["service.name"] == "signoff"
    assert named["deployment.environment.name"] == "test"
    spans = [one for scope in resource.scope_spans for one in scope.spans]
    assert sorted(one.name for one in spans) == ["call model", "run job"]
