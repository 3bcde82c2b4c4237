"""An outside service that can do to a request whatever networks and services do, and keeps its own books.

`POST /calls/{tool}` applies a call, `GET /calls/{operation}` says what became of one. The log tells of every request,
and by lines of kind "applied" of all that was really done: it is the only judge of "once". What is done to a request
depends on the seed, on `ref` in its arguments and on how often that was asked: never on timing.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from examples.support_desk.journal import Journal

HUGE_BYTES = 3_000_000
LATE_SECONDS = 1.0


class Way(StrEnum):
    """What is done to a request."""

    plain = "plain"
    slow = "slow"  # apply, wait, answer
    reply_lost = "reply_lost"  # apply, and close the connection
    nothing_and_reply_lost = "nothing_and_reply_lost"  # do nothing, and close the connection
    applied_later = "applied_later"  # close the connection, and apply LATE_SECONDS later
    error_before = "error_before"  # do nothing and answer 500
    error_after = "error_after"  # apply and answer 500
    decline = "decline"  # do nothing and answer 402
    too_many = "too_many"  # do nothing and answer 429 with Retry-After
    huge = "huge"  # apply, and answer with megabytes
    malformed = "malformed"  # apply, and answer with what is no JSON


FAULTS = tuple(way for way in Way if way is not Way.plain)


@dataclass(frozen=True, slots=True)
class Request:
    tool: str
    operation: str
    key: str | None
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """`content` is None where the connection closes without an answer."""

    status: int
    content: bytes | None
    retry_after: str | None = None


class Provider:
    """The service in this process: `with Provider(log) as provider: provider.url`."""

    def __init__(self, log: Path, *, seed: int = 0, fault_rate: float = 0.0, slow_seconds: float = 0.5) -> None:
        self.journal = Journal(log)
        self.slow_seconds = slow_seconds
        self._seed = seed
        self._fault_rate = fault_rate
        self._lock = threading.Lock()
        self._planned: dict[str, list[Way]] = {}
        self._asked: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._by_key: dict[str, tuple[Request, Reply] | None] = {}
        self._by_operation: dict[str, str] = {}
        self._timers: list[threading.Timer] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def plan(self, ref: str, *ways: Way) -> None:
        """What is done to the next requests about `ref`, in turn; those behind them are served plainly."""
        with self._lock:
            self._planned.setdefault(ref, []).extend(ways)

    def stop_faults(self) -> None:
        self._fault_rate = 0.0

    def forget_keys(self) -> None:
        """As a provider does whose keys have run out: from here on the same key counts as new."""
        with self._lock:
            self._by_key.clear()

    def applied(self) -> list[dict[str, Any]]:
        """All that was really done, oldest first: tool, operation, key, args, id."""
        return [entry for entry in self.journal.entries() if entry["kind"] == "applied"]

    def requests(self) -> list[dict[str, Any]]:
        """All requests, oldest first, with what was done to each of them."""
        return [entry for entry in self.journal.entries() if entry["kind"] == "request"]

    def has_done(self, operation: str) -> str | None:
        """Its own id of what it has done for the operation."""
        with self._lock:
            return self._by_operation.get(operation)

    def call(self, request: Request) -> Reply:
        known, way = self._begin(request)
        entry = {"tool": request.tool, "operation": request.operation, "key": request.key, "ref": request.args["ref"]}
        self.journal.add(kind="request", way=str(way), known=known is not None, **entry)
        if known is not None:
            return known
        reply = self._handle(request, way)
        # Only what was done or refused is remembered: a fault before that leaves the key unused.
        return reply

    def close(self) -> None:
        for timer in self._timers:
            timer.join()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.journal.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, request: Request) -> tuple[Reply | None, Way]:
        with self._lock:
            way = self._way(str(request.args["ref"]))
            if request.key is None:
                return None, way
            if request.key not in self._by_key:
                self._by_key[request.key] = None
                return None, way
            known = self._by_key[request.key]
            if known is None:
                return _json(409, {"error": "a request with this key is being handled"}), way
            first, reply = known
            same = (first.tool, first.args) == (request.tool, request.args)
            return (reply if same else _json(409, {"error": "this key was used with another request"})), way

    def _way(self, ref: str) -> Way:
        self._asked[ref] += 1
        if planned := self._planned.get(ref):
            return planned.pop(0)
        chance = random.Random(f"{self._seed} {ref} {self._asked[ref]}")
        return chance.choice(FAULTS) if chance.random() < self._fault_rate else Way.plain

    def _handle(self, request: Request, way: Way) -> Reply:
        if way in (Way.error_before, Way.nothing_and_reply_lost, Way.too_many):
            self._release(request)
            return _NOTHING_DONE[way]
        if way is Way.decline:
            return self._keep(request, _json(402, {"error": "declined"}), "declined")
        if way is Way.applied_later:
            timer = threading.Timer(LATE_SECONDS, self._apply, [request])
            self._timers.append(timer)
            timer.start()
            return Reply(0, None)
        reply = self._apply(request)
        if way is Way.slow:
            time.sleep(self.slow_seconds)
        return _altered(reply, way)

    def _apply(self, request: Request) -> Reply:
        with self._lock:
            self._done[request.tool] += 1
            id_ = f"{request.tool}-{self._done[request.tool]}"
            self._by_operation[request.operation] = id_
        return self._keep(request, _json(201, {"id": id_}), "applied", id=id_)

    def _keep(self, request: Request, reply: Reply, kind: str, **more: Any) -> Reply:
        facts = {"tool": request.tool, "operation": request.operation, "key": request.key, "args": dict(request.args)}
        self.journal.add(kind=kind, **facts, **more)
        with self._lock:
            if request.key is not None:
                self._by_key[request.key] = (request, reply)
        return reply

    def _release(self, request: Request) -> None:
        with self._lock:
            if request.key is not None:
                self._by_key.pop(request.key, None)


def _json(status: int, body: Mapping[str, Any]) -> Reply:
    return Reply(status, json.dumps(body).encode())


_NOTHING_DONE = {
    Way.error_before: _json(500, {"error": "fell over before it did anything"}),
    Way.nothing_and_reply_lost: Reply(0, None),
    Way.too_many: Reply(429, b"{}", retry_after="0.2"),
}


def _altered(reply: Reply, way: Way) -> Reply:
    if way is Way.reply_lost:
        return Reply(0, None)
    if way is Way.error_after:
        return _json(500, {"error": "fell over after it was done"})
    if way is Way.malformed:
        return Reply(200, b'{"id": "cut o')
    if way is Way.huge:
        assert reply.content is not None
        return _json(201, {**json.loads(reply.content), "padding": "x" * HUGE_BYTES})
    return reply


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # who asked was killed as it did
            args = json.loads(body)
            tool = self.path.rpartition("/")[2]
            key = self.headers.get("Idempotency-Key")
            self._send(provider.call(Request(tool, self.headers["X-Operation"], key, args)))

        def do_GET(self) -> None:
            done = provider.has_done(self.path.rpartition("/")[2])
            self._send(_json(200, {"found": "not_found" if done is None else "applied", "id": done}))

        def _send(self, reply: Reply) -> None:
            self.close_connection = True
            if reply.content is None:
                return
            try:
                self.send_response(reply.status)
                self.send_header("Content-Length", str(len(reply.content)))
                if reply.retry_after is not None:
                    self.send_header("Retry-After", reply.retry_after)
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(reply.content)
            except ConnectionError:
                return  # whoever asked is gone; the books are right all the same

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler
