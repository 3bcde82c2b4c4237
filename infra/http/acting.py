"""What every operator's act over HTTP has: a reason, and the header by which it counts once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Request

from signoff.domain.errors import InvalidRequest
from signoff.domain.operator_acts import MAX_REASON_CHARACTERS
from signoff.infra.http import bodies
from signoff.infra.http.asking import one_header
from signoff.infra.http.headers import read_idempotency_key
from signoff.infra.http.openapi import body, headers

REASON: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_REASON_CHARACTERS}


async def _request_id(request: Request) -> str | None:
    return read_idempotency_key(one_header(request, "idempotency-key"))


RequestId = Annotated[str | None, Depends(_request_id)]
"""`Idempotency-Key`: the same act with the same key is done once."""


def act_body(schema: dict[str, Any]) -> dict[str, Any]:
    """Body and header of an act, for its `openapi_extra`."""
    key = headers(Idempotency_Key="The same act with the same key is done once, and answered as it was")
    return {**body(schema), "parameters": key}


def reason_of(fields: Mapping[str, Any]) -> str:
    """Raises InvalidRequest without one."""
    reason = bodies.text(fields, "reason", MAX_REASON_CHARACTERS)
    if reason is None:
        raise InvalidRequest("a 'reason' is needed: it stays in the record", field="reason")
    return reason
