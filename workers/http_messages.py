"""What an HTTP answer says in words, for the ledger and the agent: short, printable, without our own secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx

from signoff.domain.canonical import scrub

MAX_CHARACTERS = 500
SHORTEST_SECRET = 6
_NAMES_A_SECRET = re.compile(r"auth|cookie|token|secret|key|sign|session|passw", re.IGNORECASE)
_NOT_SECRET = "idempotency-key"
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_TELLING = ("detail", "message", "error_description", "error", "title", "reason", "errors")


def words_of(response: httpx.Response, body: bytes) -> str:
    """`hotel.example answered 422: the room is taken`. What we sent as a secret is not in it, even if they echo it."""
    request = _request_of(response)
    host = request.url.host if request is not None else "the provider"
    said = _told(response.headers.get("content-type", ""), body)
    for secret in _secrets(request):
        said = said.replace(secret, "…")
    said = _BLANKS.sub(" ", scrub(said)).strip()
    answered = f"{host} answered {response.status_code}"
    return f"{answered}: {said[:MAX_CHARACTERS]}" if said else answered


def _told(content_type: str, body: bytes) -> str:
    """The message in a body; nothing of a page for browsers, or of what is no text."""
    kind = content_type.partition(";")[0].strip().lower()
    text = body.decode("utf-8", errors="replace")
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return _message(json.loads(text)) or text
        except (ValueError, RecursionError):
            return text
    return text if kind in ("", "text/plain") else ""


def _message(document: Any) -> str | None:
    if isinstance(document, str):
        return document
    if not isinstance(document, dict):
        return None
    found = next((document[name] for name in _TELLING if document.get(name)), None)
    return found if isinstance(found, str) or found is None else (_message(found) or json.dumps(found))


def _secrets(request: httpx.Request | None) -> list[str]:
    """The longest first: one may be a part of another."""
    found = {part for value in _secret_values(request) for part in (value, value.rpartition(" ")[2])}
    return sorted((value for value in found if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


def _secret_values(request: httpx.Request | None) -> Iterator[str]:
    if request is None:
        return
    named = [*request.headers.multi_items(), *request.url.params.multi_items()]
    for name, value in named:
        if _NAMES_A_SECRET.search(name) and name.lower() != _NOT_SECRET:
            yield value


def _request_of(response: httpx.Response) -> httpx.Request | None:
    try:
        return response.request
    except RuntimeError:
        return None
