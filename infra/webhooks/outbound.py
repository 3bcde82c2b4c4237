"""One POST to a receiver: signed, to a checked address, within limits, and told as a `Reply` whatever happens."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from urllib.parse import SplitResult, urlunsplit

import httpx
from standardwebhooks import Webhook

from signoff.domain.errors import AddressRefused
from signoff.domain.sendings import Meaning, Reply, meaning_of
from signoff.infra.retry_after import read_retry_after
from signoff.infra.webhooks.public_addresses import Resolver, checked_addresses, parse_target, resolve_by_system

# 15 s in all: until the status is there, and for the rest of the answer.
TIMEOUT_SECONDS = 13.0
READ_SECONDS = 2.0
CONNECT_SECONDS = 5.0
MOST_ANSWER_BYTES = 64_000
MOST_BODY_BYTES = 1_000_000
MOST_ADDRESSES = 3

CLOUDEVENT = "application/cloudevents+json"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """What to post, and where. Without secrets it is not signed."""

    target: str
    body: str
    content_type: str
    id: str
    secrets: Sequence[str] = field(default=(), repr=False)
    allow_private: bool = False


class Poster:
    """Each post has a connection of its own: one that was checked for one name is never used for another's."""

    def __init__(
        self,
        *,
        resolve: Resolver = resolve_by_system,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        tls: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._resolve = resolve
        self._now = now
        self._tls = tls or httpx.create_ssl_context()
        self._timeout_seconds = timeout_seconds

    async def post(self, request: Request) -> Reply:
        """Never raises for what the receiver or the network does."""
        if len(request.body.encode()) > MOST_BODY_BYTES:
            return Reply(Meaning.refused, error=f"the event has more than {MOST_BODY_BYTES} bytes")
        try:
            async with asyncio.timeout(self._timeout_seconds) as limit:
                return await self._post(request, limit)
        except TimeoutError:
            return Reply(Meaning.failed, error=f"no answer within {self._timeout_seconds:g} s")
        except AddressRefused as error:
            return Reply(Meaning.failed, error=error.message)
        except httpx.HTTPError as error:
            return Reply(Meaning.failed, error=_in_words(error))

    async def _post(self, request: Request, limit: asyncio.Timeout) -> Reply:
        target = parse_target(request.target, allow_private=request.allow_private)
        host, port = target.hostname or "", target.port or (443 if target.scheme == "https" else 80)
        addresses = await checked_addresses(host, port, allow_private=request.allow_private, resolve=self._resolve)
        unreached: httpx.HTTPError | None = None
        for address in addresses[:MOST_ADDRESSES]:
            try:
                return await self._post_to(address, port, target, request, limit)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                unreached = error  # nothing has been sent: the next address may be tried
        assert unreached is not None
        raise unreached

    async def _post_to(
        self, address: str, port: int, target: SplitResult, request: Request, limit: asyncio.Timeout
    ) -> Reply:
        at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        url = urlunsplit((target.scheme, at, target.path or "/", target.query, ""))
        transport = httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False)
        timeout = httpx.Timeout(self._timeout_seconds, connect=CONNECT_SECONDS)
        async with httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
            headers = {"Host": target.netloc, **self._headers(request)}
            sni = {"sni_hostname": target.hostname}
            async with client.stream(
                "POST", url, content=request.body.encode(), headers=headers, extensions=sni, follow_redirects=False
            ) as answer:
                # The status decides, so it must not be lost to the time that the rest takes.
                limit.reschedule(asyncio.get_running_loop().time() + 2 * READ_SECONDS)
                return await self._reply(answer)

    async def _reply(self, answer: httpx.Response) -> Reply:
        """What follows the status is read, within limits, only so that the receiver can end in peace."""
        meaning = meaning_of(answer.status_code)
        wait = read_retry_after(answer.headers.get("retry-after"), self._now())
        await _read_some(answer)
        error = None if meaning is Meaning.taken else f"answered {answer.status_code}"
        return Reply(meaning, answer.status_code, error, wait)

    def _headers(self, request: Request) -> Mapping[str, str]:
        plain = {
            "Content-Type": request.content_type,
            "User-Agent": f"signoff/{version('signoff')}",
            "Accept-Encoding": "identity",
        }
        return {**plain, **signed_headers(request, self._now())} if request.secrets else plain


def signed_headers(request: Request, now: datetime) -> Mapping[str, str]:
    """Standard Webhooks: one signature for each secret that is in force."""
    signatures = [Webhook(secret).sign(request.id, now, request.body) for secret in request.secrets]
    return {
        "webhook-id": request.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


async def _read_some(answer: httpx.Response) -> None:
    read = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in answer.aiter_raw():
                read += len(chunk)
                if read > MOST_ANSWER_BYTES:
                    return
    except (TimeoutError, httpx.HTTPError):
        return


def _in_words(error: httpx.HTTPError) -> str:
    """The library's own messages may quote addresses."""
    if isinstance(error, httpx.ConnectError):
        tls = isinstance(_cause(error), ssl.SSLError)
        return "the receiver's certificate was not accepted" if tls else "the receiver can't be reached"
    if isinstance(error, httpx.TimeoutException):
        return "the receiver did not answer in time"
    return "the connection broke before an answer came"


def _cause(error: BaseException) -> BaseException | None:
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__ or found.__context__
    return found
