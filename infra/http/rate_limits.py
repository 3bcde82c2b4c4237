"""Rate limits, before anything else is done with a request: one that is refused has changed nothing.

A caller that is known (the bearer of a token, the endpoint of a webhook) has a limit of its own. Who is not counts by
the client's address, and what turns out to be nobody's counts there once more, under a stricter limit. So nobody can
use up another's, and who is known is not held up by guesses from the same address. Each process counts for itself.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.domain.errors import RateLimited
from signoff.infra.http.buckets import MOST_BUCKETS, Buckets
from signoff.infra.http.problems import problem_of

FREE_PATHS = frozenset({"/healthz", "/readyz"})
KNOWN = "caller_is_known"
WEBHOOK = re.compile(r"/v1/webhooks/([^/]{1,200})/")


class Caller(NamedTuple):
    """Who seems to ask: a kind, and a hash, a name or an address."""

    kind: str
    key: str


class RateLimit:
    """Answers 429 as problem+json with `Retry-After`. A limit of 0 is none."""

    def __init__(
        self,
        app: ASGIApp,
        requests_per_minute: int,
        failed_logins_per_minute: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._requests = Buckets(requests_per_minute, clock)
        self._failures = Buckets(failed_logins_per_minute, clock)
        self._known: OrderedDict[Caller, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE_PATHS:
            await self._app(scope, receive, send)
            return
        caller, address = caller_of(scope), _address(scope)
        payer = caller if caller in self._known else address
        seconds = self._wait_for(payer, address)
        if seconds > 0:
            await problem_of(_refusal(seconds))(scope, receive, send)
            return
        self._requests.take(payer)
        await self._app(scope, receive, self._noting(scope, send, caller, address))

    def _wait_for(self, payer: Caller, address: Caller) -> float:
        guessing = self._failures.wait_for(address) if payer == address else 0.0
        return max(guessing, self._requests.wait_for(payer))

    def _noting(self, scope: Scope, send: Send, caller: Caller, address: Caller) -> Send:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(message["status"], scope, caller, address)
            await send(message)

        return noting

    def _note(self, status: int, scope: Scope, caller: Caller, address: Caller) -> None:
        if _is_nobodys(status, caller):
            self._failures.take(address)
            self._known.pop(caller, None)
        elif KNOWN in scope.get("state", ()):
            self._known[caller] = None
            self._known.move_to_end(caller)
            if len(self._known) > MOST_BUCKETS:
                self._known.popitem(last=False)


def mark_known(request: Request) -> None:
    """Once it is certain who asks: from the next request on they have a limit of their own."""
    setattr(request.state, KNOWN, True)


def caller_of(scope: Scope) -> Caller:
    """By the token's hash: memory holds no token for this."""
    if found := WEBHOOK.match(scope["path"]):
        return Caller("endpoint", found[1])
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return Caller("token", hashlib.sha256(token.strip().encode()).hexdigest())
    return _address(scope)


def _is_nobodys(status: int, caller: Caller) -> bool:
    """For a webhook an endpoint that is not there, too."""
    return status == 401 or (status == 404 and caller.kind == "endpoint")


def _address(scope: Scope) -> Caller:
    """Of IPv6 the network: a client has all of its addresses."""
    text = scope["client"][0] if scope.get("client") else ""
    try:
        address = ip_address(text)
    except ValueError:
        return Caller("address", text[:100])
    if isinstance(address, IPv6Address):
        text = str(address.ipv4_mapped or int(address) >> 64)
    return Caller("address", text)


def _refusal(seconds: float) -> RateLimited:
    wait = max(1, math.ceil(seconds))
    return RateLimited(f"too many requests; there is room again in {wait} s", retry_after_seconds=wait)
