"""A small payments service, which pays each refund once per Idempotency-Key, and keeps its own books.

    python -m examples.support_desk.payments --port 8090 --log payments.jsonl

`POST /refunds` pays; `GET /refunds` lists what was paid; `POST /faults` asks for a fault (see `faults`).
The same key with the same body gets the first answer again; with another body, or while the first is still being
handled, 409. The log tells of every request and, by lines of kind "applied", of every refund that was paid.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from examples.support_desk.faults import Fault, FaultKind, Faults
from examples.support_desk.journal import Journal

MOST_PAID_AT_ONCE = 10_000.0
MOST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Reply:
    """`body` is None where the connection closes without an answer."""

    status: int
    body: dict[str, Any] | None


class Ledger:
    """Which key has paid what. Starts from the log, so that a restart forgets nothing."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._answers: dict[str, tuple[dict[str, Any], Reply]] = {}
        self._applied = 0
        for entry in journal.entries():
            if entry["kind"] in ("applied", "declined"):
                self._answers[entry["key"]] = entry["request"], Reply(entry["status"], entry["answer"])
                self._applied += entry["kind"] == "applied"

    def begin(self, key: str, request: dict[str, Any]) -> Reply | None:
        """What this key has come to already; None if the request is to be handled now, until `end`."""
        with self._lock:
            if key in self._answers:
                first, reply = self._answers[key]
                return reply if first == request else _error(409, "this key was used with another request")
            if key in self._busy:
                return _error(409, "a request with this key is being handled")
            self._busy.add(key)
            return None

    def end(self, key: str) -> None:
        with self._lock:
            self._busy.discard(key)

    def pay(self, key: str, request: dict[str, Any]) -> Reply:
        with self._lock:
            self._applied += 1
            answer = {"id": f"re_{self._applied:04}", **request}
            return self._keep("applied", key, request, Reply(201, answer))

    def decline(self, key: str, request: dict[str, Any], reason: str) -> Reply:
        with self._lock:
            return self._keep("declined", key, request, _error(402, reason))

    def _keep(self, kind: str, key: str, request: dict[str, Any], reply: Reply) -> Reply:
        self._journal.add(kind=kind, key=key, request=request, status=reply.status, answer=reply.body)
        self._answers[key] = request, reply
        return reply


class Payments:
    """The service in this process: `with Payments(log) as payments: payments.url`."""

    def __init__(self, log: Path, *, port: int = 0) -> None:
        self.journal = Journal(log)
        self.faults = Faults()
        self.ledger = Ledger(self.journal)
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def applied(self) -> list[dict[str, Any]]:
        """Every refund that was paid, oldest first: id, key, order_id, amount, reason."""
        paid = [entry for entry in self.journal.entries() if entry["kind"] == "applied"]
        return [{"key": entry["key"], **entry["answer"]} for entry in paid]

    def requests(self) -> list[dict[str, Any]]:
        """Every request that came, with its answer's status, oldest first."""
        return [entry for entry in self.journal.entries() if entry["kind"] == "request"]

    def refund(self, key: str | None, request: Any) -> Reply:
        """Handles one refund from its first look to its answer, faults and all."""
        if not key:
            return _error(400, "a refund needs an Idempotency-Key")
        if problem := _problem(request):
            return _error(422, problem)
        known = self.ledger.begin(key, request)
        if known is not None:
            return known
        try:
            return self._handle(key, request, self.faults.take(request["order_id"]))
        finally:
            self.ledger.end(key)

    def _handle(self, key: str, request: dict[str, Any], fault: Fault | None) -> Reply:
        kind = fault.kind if fault else None
        if fault and kind is FaultKind.delay_before:
            time.sleep(fault.seconds)
        if kind is FaultKind.error_before:
            return _error(500, "the service fell over before it did anything")
        if kind is FaultKind.decline or request["amount"] > MOST_PAID_AT_ONCE:
            return self.ledger.decline(key, request, "the bank declined it")
        reply = self.ledger.pay(key, request)
        if fault and kind is FaultKind.delay_after:
            time.sleep(fault.seconds)
        if kind is FaultKind.drop_reply:
            return Reply(0, None)
        return _error(500, "the service fell over after it paid") if kind is FaultKind.error_after else reply

    def serve(self) -> None:
        """Serves until the process is stopped."""
        self._server.serve_forever()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self.journal.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


def _handler(payments: Payments) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._body()
            if self.path == "/refunds":
                key = self.headers.get("Idempotency-Key")
                reply = payments.refund(key, body)
                payments.journal.add(kind="request", key=key, request=body, status=reply.status)
                self._send(reply)
            elif self.path == "/faults":
                self._send(_ask(payments.faults, body))
            else:
                self._send(_error(404, "there is nothing here"))

        def do_GET(self) -> None:
            found = self.path == "/refunds"
            self._send(Reply(200, {"refunds": payments.applied()}) if found else _error(404, "there is nothing here"))

        def _body(self) -> Any:
            try:
                return json.loads(self.rfile.read(min(int(self.headers.get("Content-Length") or 0), MOST_BYTES)))
            except ValueError:
                return None

        def _send(self, reply: Reply) -> None:
            self.close_connection = True
            if reply.body is None:
                return
            content = json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                return  # whoever asked is gone; the books are right all the same

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler


def _problem(request: Any) -> str | None:
    if not isinstance(request, Mapping) or set(request) != {"order_id", "amount", "reason"}:
        return "a refund has order_id, amount and reason"
    if not isinstance(request["order_id"], str) or not isinstance(request["reason"], str):
        return "order_id and reason must be text"
    amount = request["amount"]
    if not isinstance(amount, int | float) or isinstance(amount, bool) or not amount > 0:
        return "the amount must be a number above 0"
    return None


def _ask(faults: Faults, raw: Any) -> Reply:
    try:
        faults.ask(Fault.read(raw))
    except (ValueError, TypeError, AttributeError) as error:
        return _error(422, str(error))
    return Reply(200, {"asked": raw})


def _error(status: int, message: str) -> Reply:
    return Reply(status, {"error": message})


def main() -> None:
    parser = argparse.ArgumentParser(description="The support desk's payments service, on loopback")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()
    payments = Payments(options.log, port=options.port)
    print(payments.url, flush=True)
    try:
        payments.serve()
    except KeyboardInterrupt:
        pass
    finally:
        payments.close()


if __name__ == "__main__":
    main()
