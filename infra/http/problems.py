"""Errors on the wire: RFC 9457 problem+json with a stable `code`, from one table.

Members beside the standard ones are the facts of the error; one that would hide a standard member is called
`current_…` (`status` of a job becomes `current_status`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from signoff.domain.canonical import scrub_value
from signoff.domain.errors import (
    Conflict,
    Forbidden,
    Invalid,
    MalformedJson,
    NotFound,
    SignatureInvalid,
    SignoffError,
    StoreUnavailable,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"
MOST_DETAIL = 2000
RETRY_SECONDS = 2

# The nearest entry up the tree decides.
STATUS: Mapping[type[SignoffError], int] = {
    MalformedJson: 400,
    Invalid: 422,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    TooManyRequests: 429,
    Unavailable: 503,
    SignoffError: 500,
}

# What HTTP itself refuses, before any use case is asked.
CODES: Mapping[int, str] = {
    400: "bad_request",
    404: "no_such_path",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    500: "internal_error",
}

STANDARD = frozenset({"type", "title", "status", "detail", "instance", "code"})

log = logging.getLogger(__name__)


def status_of(kind: type[SignoffError]) -> int:
    return next(STATUS[base] for base in kind.__mro__ if base in STATUS)


def problem(
    status: int,
    code: str,
    detail: str,
    facts: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    extra = {f"current_{name}" if name in STANDARD else name: value for name, value in (facts or {}).items()}
    body = {
        "type": f"urn:signoff:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail[:MOST_DETAIL],
        "code": code,
        **extra,
    }
    # Details may quote what was sent: text that UTF-8 can't hold must not break the answer.
    return JSONResponse(scrub_value(body), status, dict(headers or {}), media_type=MEDIA_TYPE)


def problem_of(error: SignoffError) -> JSONResponse:
    status = status_of(type(error))
    if status == 500:
        log.error("error inside a request", extra={"code": error.code}, exc_info=error)
        return problem(500, "internal_error", "the request met an error of ours; it is in our log")
    detail = error.message
    if isinstance(error, StoreUnavailable):
        # The driver's words name hosts and users.
        log.warning("store unavailable", extra={"error": detail})
        detail = "the database can't be reached right now; nothing was changed that was not answered"
    return problem(status, error.code, detail, error.details, _headers(error, status))


def add_problem_handlers(app: FastAPI) -> None:
    app.add_exception_handler(SignoffError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_defect)


async def _on_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SignoffError)
    return problem_of(error)


async def _on_validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    fields = [".".join(str(step) for step in found["loc"][1:]) for found in error.errors()]
    return problem(422, "invalid_request", f"{place}: {first['msg']}", {"fields": fields})


async def _on_http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, CODES[400])
    return problem(error.status_code, code, str(error.detail), None, error.headers)


async def _on_defect(_: Request, error: Exception) -> JSONResponse:
    return problem(500, CODES[500], "the request met an error of ours; it is in our log")


def _headers(error: SignoffError, status: int) -> dict[str, str]:
    if isinstance(error, SignatureInvalid):
        return {"WWW-Authenticate": 'StandardWebhooks realm="signoff"'}
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="signoff"'}
    if status == 429:
        return {"Retry-After": str(error.details["retry_after_seconds"])}
    return {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
