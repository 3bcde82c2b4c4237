"""Calls of a provider over HTTP, with an honest word on what became of them.

Not by the kind of error alone: a connection that can't be made says that nothing happened only if no byte of the
request had left before. So the call watches for that, and follows no redirects: one is an answer to a request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from signoff.domain.effects import Outcome
from signoff.infra.retry_after import read_retry_after
from signoff.workers.http_messages import words_of
from signoff.workers.http_statuses import Says
from signoff.workers.outcomes import NotApplied, Refused, Unknown

LONGEST_WAIT = timedelta(days=1)
MOST_BYTES_OF_A_REFUSAL = 16 * 1024
BEFORE_THE_REQUEST = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Errors of a connection that is being made, TLS and proxies included, or waited for."""


async def http_outcome(
    client: httpx.AsyncClient,
    method: str,
    url: httpx.URL | str,
    *,
    not_applied: Collection[int] = (),
    refused: Collection[int] = (),
    unknown: Collection[int] = (),
    auth: Any = httpx.USE_CLIENT_DEFAULT,
    **request: Any,
) -> httpx.Response:
    """Sends one request, and returns its answer if that says that it was done, read to its end.

    `not_applied`, `refused` and `unknown` name statuses by which this provider means something else than the table in
    `http_statuses`. `request` is what `client.build_request` takes: `json`, `headers`, `timeout`, …

    Raises:
        NotApplied: nothing left, or the answer says that nothing was done and another try may succeed.
        Refused: the answer says that nothing was done, and never will; or there is no such address.
        Unknown: bytes have left, and no answer says what became of them.
    """
    left = _Left()
    says = Says(not_applied, refused, unknown)
    try:
        built = client.build_request(method, url, **request)
        built.extensions = {**built.extensions, "trace": left.trace}
        answer = await client.send(built, stream=True, auth=auth, follow_redirects=False)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Refused(f"no request can be sent to this address: {error}") from error
    except httpx.HTTPStatusError as error:
        # Some client's own hook; what it says, its answer says.
        return read_outcome(error.response, not_applied=not_applied, refused=refused, unknown=unknown)
    except httpx.HTTPError as error:
        raise _without_answer(built, error, left) from error
    return await _read(answer, says)


def read_outcome(
    response: httpx.Response,
    *,
    not_applied: Collection[int] = (),
    refused: Collection[int] = (),
    unknown: Collection[int] = (),
) -> httpx.Response:
    """Returns an answer that says that it was done; raises what any other says, as `http_outcome` does."""
    outcome = Says(not_applied, refused, unknown).outcome(response.status_code)
    if outcome is not Outcome.succeeded:
        raise _told(response, outcome, _read_already(response))
    return response


class _Left:
    """Whether any byte of a request may have left."""

    def __init__(self) -> None:
        self.any = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Called by the connection at each of its steps. What is said to a proxy to open a tunnel is no request."""
        if event.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
            self.any = True


def _without_answer(request: httpx.Request, error: httpx.HTTPError, left: _Left) -> NotApplied | Unknown:
    # Its text quotes the header that it does not like.
    text = "" if isinstance(error, httpx.LocalProtocolError) else f": {error}"
    what = f"{request.url.host}: {type(error).__name__}{text}"
    if isinstance(error, BEFORE_THE_REQUEST) and not left.any:
        return NotApplied(f"nothing was sent to {what}")
    return Unknown(f"no answer from {what}")


async def _read(response: httpx.Response, says: Says) -> httpx.Response:
    outcome = says.outcome(response.status_code)
    body = b""
    try:
        if outcome is Outcome.succeeded:
            await response.aread()
            return response
        body = await _beginning(response)
    except httpx.HTTPError as error:
        if outcome is Outcome.succeeded:
            said = f"{words_of(response, b'')}, but its body broke off: {type(error).__name__}"
            raise Unknown(said) from error
    finally:
        with suppress(httpx.HTTPError):
            await response.aclose()
    raise _told(response, outcome, body)


def _read_already(response: httpx.Response) -> bytes:
    try:
        return response.content
    except httpx.ResponseNotRead:
        return b""


async def _beginning(response: httpx.Response) -> bytes:
    found = bytearray()
    async for part in response.aiter_bytes():
        found += part
        if len(found) >= MOST_BYTES_OF_A_REFUSAL:
            break
    return bytes(found[:MOST_BYTES_OF_A_REFUSAL])


def _told(response: httpx.Response, outcome: Outcome, body: bytes) -> Refused | NotApplied | Unknown:
    words = words_of(response, body)
    if outcome is Outcome.refused:
        return Refused(words)
    if outcome is Outcome.not_applied:
        return NotApplied(words, retry_after=_wait(response.headers))
    return Unknown(words)


def _wait(headers: httpx.Headers) -> timedelta | None:
    wait = read_retry_after(headers.get("retry-after"), _their_time(headers))
    return None if wait is None else min(wait, LONGEST_WAIT)


def _their_time(headers: httpx.Headers) -> datetime:
    """A date that they name is by their own clock."""
    try:
        at = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return datetime.now(UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
