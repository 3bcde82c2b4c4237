"""http_outcome against a server that misbehaves, over real sockets: the server's own log says what arrived."""

from __future__ import annotations

import asyncio
import datetime
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from signoff.domain.effects import Outcome
from signoff.workers import NotApplied, Refused, Unknown, http_outcome, read_outcome
from signoff.workers.http_statuses import Says

pytestmark = pytest.mark.anyio

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OUTCOMES = {Outcome.refused: Refused, Outcome.not_applied: NotApplied, Outcome.unknown: Unknown}
TIMEOUT = httpx.Timeout(5.0, read=0.2, pool=0.1)


class Provider:
    """Answers each request as the next of `behaviours` does (the last again and again), and logs what arrived."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)
        self.log: list[str] = []
        self.url = ""
        self.arrived = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.log.append(head.decode().splitlines()[0])
                self.arrived.set()
                length = next((line for line in head.lower().splitlines() if line.startswith(b"content-length")), b":0")
                await reader.readexactly(int(length.partition(b":")[2]))
                await (self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0])(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*behaviours: Behaviour) -> AsyncIterator[Provider]:
    provider = Provider(*behaviours)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/pay"
    try:
        yield provider
    finally:
        server.close()


def says(raw: str, *, close: bool = False) -> Behaviour:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw.replace("\n", "\r\n").encode())
        await writer.drain()
        if close:
            writer.close()

    return behave


def answers(status: int, body: str = "", **headers: str) -> Behaviour:
    more = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\ncontent-type: text/plain\n{more}content-length: {len(body.encode())}\n\n"
    return says(head + body)


async def hangs(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    writer.transport.abort()


async def pay(url: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=TIMEOUT) as client:
        return await http_outcome(client, "POST", url, json={"amount": 5}, **options)


# --- nothing has left --------------------------------------------------------------------------------------


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
async def test_who_can_not_be_reached_was_sent_nothing(host: str) -> None:
    with pytest.raises(NotApplied, match="nothing was sent to"):
        await pay(f"http://{host}:{unused_port()}/pay?key=topsecret")


async def test_a_failed_handshake_has_sent_nothing() -> None:
    async def no_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 speak plainly\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(no_tls, "127.0.0.1", 0)
    with pytest.raises(NotApplied, match="ConnectError"):
        await pay(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/pay")
    server.close()


async def test_a_connection_that_takes_too_long_has_sent_nothing() -> None:
    async with serving(answers(200)) as provider:  # speaks no TLS, and says nothing until it is asked in clear
        async with httpx.AsyncClient(timeout=httpx.Timeout(5.0, connect=0.1)) as client:
            with pytest.raises(NotApplied, match="ConnectTimeout"):
                await http_outcome(client, "POST", provider.url.replace("http:", "https:"))


async def test_waiting_for_a_free_connection_has_sent_nothing() -> None:
    async with serving(hangs) as provider:
        async with httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=1)) as client:
            busy = asyncio.create_task(client.get(provider.url, timeout=5))
            await provider.arrived.wait()
            with pytest.raises(NotApplied, match="PoolTimeout"):
                await http_outcome(client, "POST", provider.url)
            busy.cancel()
            await asyncio.wait([busy])
    assert provider.log == ["GET /pay HTTP/1.1"]


async def test_a_proxy_that_opens_no_tunnel_has_passed_nothing_on() -> None:
    async with serving(answers(407)) as proxy:
        async with httpx.AsyncClient(proxy=proxy.url.removesuffix("/pay"), timeout=TIMEOUT) as client:
            with pytest.raises(NotApplied, match="ProxyError: 407"):
                await http_outcome(client, "POST", "https://bank.invalid/pay")
    assert proxy.log == ["CONNECT bank.invalid:443 HTTP/1.1"]


@pytest.mark.parametrize("url", ["ftp://bank.example/pay", "http://bank.example:port/", "/pay"])
async def test_where_nothing_can_be_sent_nothing_ever_will(url: str) -> None:
    with pytest.raises(Refused, match="no request can be sent"):
        await pay(url)


# --- bytes have left, and no answer says what became of them ---------------------------------------------------


@pytest.mark.parametrize(
    "behaviour",
    [
        hangs,
        resets,
        says("", close=True),
        says("HTTP/1.1 200 OK\ncontent-le", close=True),
        says("no HTTP at all\n\n", close=True),
        says("HTTP/1.1 100 Continue\n\n", close=True),
    ],
)
async def test_without_an_answer_nobody_knows(behaviour: Behaviour) -> None:
    async with serving(behaviour) as provider:
        with pytest.raises(Unknown, match="no answer from 127"):
            await pay(provider.url)
    assert len(provider.log) == 1


async def test_a_kept_connection_that_was_closed_as_we_wrote() -> None:
    async with serving(answers(200), resets) as provider, httpx.AsyncClient(timeout=TIMEOUT) as client:
        await http_outcome(client, "POST", provider.url)
        with pytest.raises(Unknown):
            await http_outcome(client, "POST", provider.url)
    assert len(provider.log) == 2


async def test_a_connection_error_after_a_first_request_of_the_same_call() -> None:
    """Digest authentication sends twice. The second time there is nobody any more: what became of the first?"""
    challenge = answers(401, www_authenticate='Digest realm="a", nonce="b", qop="auth"', connection="close")
    async with serving(challenge) as provider:
        async with httpx.AsyncClient(timeout=TIMEOUT) as client:

            async def gone(response: httpx.Response) -> None:
                raise httpx.ConnectError("nobody there any more")

            client.event_hooks["response"].append(gone)
            with pytest.raises(Unknown):
                await http_outcome(client, "POST", provider.url, auth=httpx.DigestAuth("a", "b"))
    assert provider.log


async def test_half_a_success_is_no_result() -> None:
    async with serving(says("HTTP/1.1 201 X\ncontent-length: 100\n\nhalf", close=True)) as provider:
        with pytest.raises(Unknown, match=r"answered 201, but its body broke off: RemoteProtocolError"):
            await pay(provider.url)


async def test_a_success_that_can_not_be_decoded() -> None:
    async with serving(answers(200, "plain", content_encoding="gzip")) as provider:
        with pytest.raises(Unknown, match="broke off: DecodingError"):
            await pay(provider.url)


async def test_half_a_refusal_is_a_refusal() -> None:
    async with serving(says("HTTP/1.1 422 X\ncontent-length: 100\n\nhalf", close=True)) as provider:
        with pytest.raises(Refused, match="answered 422"):
            await pay(provider.url)


async def test_being_cancelled_stays_what_it_is() -> None:
    async with serving(hangs) as provider:
        task = asyncio.create_task(pay(provider.url))
        await provider.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# --- answers -----------------------------------------------------------------------------------------------


async def test_a_success_is_returned() -> None:
    async with serving(answers(202, "later")) as provider:
        assert (await pay(provider.url)).text == "later"
        with pytest.raises(Unknown):
            await pay(provider.url, unknown={202})


async def test_no_redirect_is_followed() -> None:
    async with serving(answers(303, location="/elsewhere")) as provider:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            with pytest.raises(Unknown, match="answered 303"):
                await http_outcome(client, "POST", provider.url)
    assert provider.log == ["POST /pay HTTP/1.1"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("Tue, 01 Dec 2026 10:00:30 GMT", 30), ("99999999", 86400), ("soon", None), (None, None)],
)
async def test_when_to_come_back(header: str | None, seconds: float | None) -> None:
    given = {} if header is None else {"retry_after": header}
    async with serving(answers(429, date="Tue, 01 Dec 2026 10:00:00 GMT", **given)) as provider:
        with pytest.raises(NotApplied) as raised:
            await pay(provider.url)
    assert raised.value.retry_after == (None if seconds is None else timedelta(seconds=seconds))


async def test_a_date_counts_from_now_where_they_do_not_say_what_time_it_is() -> None:
    at = format_datetime(datetime.datetime.now(UTC) + timedelta(minutes=2), usegmt=True)
    with pytest.raises(NotApplied) as raised:
        read_outcome(httpx.Response(429, headers={"retry-after": at}))
    assert raised.value.retry_after is not None
    assert timedelta(seconds=100) < raised.value.retry_after <= timedelta(seconds=120)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.succeeded),
        (204, Outcome.succeeded),
        (302, Outcome.unknown),
        (308, Outcome.refused),
        *((status, Outcome.refused) for status in (400, 401, 403, 404, 405, 410, 413, 415, 422, 451)),
        (408, Outcome.unknown),
        (409, Outcome.unknown),
        (425, Outcome.not_applied),
        (429, Outcome.not_applied),
        *((status, Outcome.unknown) for status in (101, 306, 499, 500, 502, 503, 504, 599, 999)),
    ],
)
def test_what_a_status_says(status: int, outcome: Outcome) -> None:
    assert Says().outcome(status) is outcome


def test_what_a_provider_says_otherwise() -> None:
    response = httpx.Response(503, headers={"retry-after": "3"})
    with pytest.raises(Unknown):
        read_outcome(response)
    with pytest.raises(NotApplied) as raised:
        read_outcome(response, not_applied={503})
    assert raised.value.retry_after == timedelta(seconds=3)
    with pytest.raises(Refused):
        read_outcome(httpx.Response(409), refused={409})


# --- words -------------------------------------------------------------------------------------------------


def refused_with(body: Any, content_type: str = "application/json", **request: Any) -> str:
    given = {"json": body} if content_type == "application/json" else {"content": body}
    sent = httpx.Request("POST", "https://bank.example/pay?api_key=query-secret", **request)
    response = httpx.Response(422, request=sent, headers={"content-type": content_type}, **given)
    with pytest.raises(Refused) as raised:
        read_outcome(response)
    return str(raised.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"title": "No", "detail": "the room is taken"}, "the room is taken"),
        ({"error": {"message": "no such\n  card\x1b[2J"}}, "no such card [2J"),
        ({"errors": ["a", "b"]}, '["a", "b"]'),
        ([1], "[1]"),
    ],
)
def test_the_message_of_a_refusal(body: Any, said: str) -> None:
    assert refused_with(body) == f"bank.example answered 422: {said}"


def test_a_page_for_browsers_is_left_out() -> None:
    assert refused_with("<h1>No</h1>", "text/html") == "bank.example answered 422"


def test_a_message_is_short() -> None:
    assert len(refused_with("x" * 10_000, "text/plain")) < 600


@pytest.mark.parametrize("secret", ["hunter22", "query-secret", "cookie-value"])
def test_what_we_sent_as_a_secret_is_not_repeated(secret: str) -> None:
    headers = {"Authorization": "Bearer hunter22", "Cookie": "cookie-value", "Idempotency-Key": "op_1.0"}
    told = refused_with({"detail": f"bad credentials {secret} of op_1.0"}, headers=headers)
    assert told == "bank.example answered 422: bad credentials … of op_1.0"


async def test_an_illegal_header_is_not_quoted() -> None:
    async with serving(answers(200)) as provider:
        with pytest.raises(Unknown) as raised:
            await pay(provider.url, headers={"Authorization": "Bearer hunter22\n"})
    assert "hunter22" not in str(raised.value)
    assert isinstance(raised.value.__cause__, httpx.LocalProtocolError)
