"""Who is limited, by what, and until when; the clock is the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from signoff.infra.http.buckets import Buckets
from signoff.infra.http.rate_limits import KNOWN, RateLimit

pytestmark = pytest.mark.anyio


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def test_so_many_at_once_and_as_many_again_in_a_minute() -> None:
    clock = Clock()
    buckets = Buckets(60, clock)
    for _ in range(60):
        assert buckets.wait_for("a") == 0
        buckets.take("a")
    assert buckets.wait_for("a") == pytest.approx(1)
    assert buckets.wait_for("b") == 0
    clock.now += 0.5
    assert buckets.wait_for("a") == pytest.approx(0.5)
    clock.now += 10
    for _ in range(10):
        assert buckets.wait_for("a") == 0
        buckets.take("a")
    assert buckets.wait_for("a") > 0
    clock.now += 3600
    for _ in range(60):
        buckets.take("a")
    assert buckets.wait_for("a") > 0


def test_the_number_of_buckets_is_bounded_and_the_longest_unused_goes_first() -> None:
    buckets = Buckets(1, Clock(), most=3)
    for key in ("a", "b", "c", "a", "d"):
        buckets.take(key)
    assert len(buckets) == 3
    assert [buckets.wait_for(key) > 0 for key in ("a", "b", "c", "d")] == [True, False, True, True]
    for number in range(1000):
        buckets.wait_for(number)
    assert len(buckets) == 3


def test_no_limit_keeps_nothing() -> None:
    buckets = Buckets(0, Clock())
    for _ in range(1000):
        buckets.take("a")
    assert (buckets.wait_for("a"), len(buckets)) == (0, 0)


@dataclass
class Limited:
    """The middleware over an application that knows the tokens and secrets named `good…`."""

    requests: int = 10
    failures: int = 3
    clock: Clock = field(default_factory=Clock)
    asked: int = 0

    def __post_init__(self) -> None:
        self.limit = RateLimit(self.app, self.requests, self.failures, self.clock)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        good = scope["sent"].startswith("good")
        if good:
            scope.setdefault("state", {})[KNOWN] = True
        status = 200 if good or scope["path"] == "/v1/openapi.json" else 404 if scope["path"] == "/nowhere" else 401
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(self, sent: str = "", path: str = "/v1/jobs", address: str = "192.0.2.1") -> int:
        """The status; `sent` is a token, or what a webhook was signed with."""
        headers = [] if path.startswith("/v1/webhooks") or not sent else [(b"authorization", f"Bearer {sent}".encode())]
        scope = {"type": "http", "path": path, "headers": headers, "client": (address, 1), "sent": sent}
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        await self.limit(scope, _nothing, send)
        if said[0]["status"] == 429:
            assert int(dict(said[0]["headers"])[b"retry-after"]) >= 1
            assert b"rate_limited" in said[1]["body"]
        return int(said[0]["status"])


async def _nothing() -> Any:
    await anyio.sleep_forever()


async def test_each_known_token_has_a_limit_of_its_own() -> None:
    limited = Limited()
    assert [await limited.ask("good one") for _ in range(12)] == [200] * 11 + [429]  # the first is its address's
    assert limited.asked == 11
    assert await limited.ask("good two") == 200
    limited.clock.now += 6
    assert [await limited.ask("good one") for _ in range(2)] == [200, 429]


async def test_guesses_are_stopped_by_address_and_hold_up_nobody_who_is_known() -> None:
    limited = Limited()
    assert await limited.ask("good one") == 200
    assert [await limited.ask(f"bad {number}") for number in range(5)] == [401, 401, 401, 429, 429]
    assert await limited.ask() == 429
    assert await limited.ask("good one") == 200
    assert await limited.ask("bad", address="192.0.2.2") == 401
    limited.clock.now += 20
    assert [await limited.ask("bad") for _ in range(2)] == [401, 429]


async def test_a_token_that_is_taken_back_is_known_no_longer() -> None:
    limited = Limited()
    assert await limited.ask("good one") == 200
    caller = next(iter(limited.limit._known))
    limited.limit._note(401, {"type": "http"}, caller, caller)
    assert limited.limit._known == {}


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/nowhere"])
async def test_an_answer_that_nobody_had_to_be_known_for_makes_nobody_known(path: str) -> None:
    limited = Limited()
    assert [await limited.ask(f"bad {number}", path=path) for number in range(11)][-1] == 429


async def test_a_webhook_counts_for_its_endpoint_and_a_forgery_for_its_address() -> None:
    limited = Limited(requests=5)
    path = "/v1/webhooks/chat/decisions"
    assert await limited.ask("good", path=path) == 200
    forged = [await limited.ask("forged", path=path, address="198.51.100.7") for _ in range(5)]
    assert forged == [401, 401, 401, 429, 429]
    answers = [await limited.ask("good", path=path) for _ in range(6)]
    assert answers == [200] * 5 + [429]  # its address paid for the first, and it for the first forgery
    assert await limited.ask("good", path="/v1/webhooks/other/decisions") == 200


async def test_an_ipv6_client_is_its_network() -> None:
    limited = Limited()
    for number in range(3):
        assert await limited.ask("bad", address=f"2001:db8::{number}") == 401
    assert await limited.ask("bad", address="2001:db8::ffff") == 429
    assert await limited.ask("bad", address="2001:db8:0:1::1") == 401
    assert await limited.ask("bad", address="::ffff:192.0.2.1") == 401


async def test_health_is_not_counted_and_zero_is_no_limit() -> None:
    limited = Limited(requests=1)
    assert {await limited.ask(path="/healthz") for _ in range(20)} == {401}
    unlimited = Limited(requests=0, failures=0)
    assert {await unlimited.ask("bad") for _ in range(100)} == {401}
