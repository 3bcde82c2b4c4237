"""Dead letters over HTTP: messages, effects, runs and webhooks that nothing goes on with by itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse

from signoff.domain.authority import Right, require_right
from signoff.domain.dead_letters import LetterId, LetterKind
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_INPUT_CHARACTERS
from signoff.domain.operator_acts import MAX_REASON_CHARACTERS
from signoff.infra.dead_letter_acts import GIVEN_UP, Request, discard, requeue
from signoff.infra.http import bodies
from signoff.infra.http.asking import Ages, App, Caller, JsonBody, Paging, one_header
from signoff.infra.http.headers import read_idempotency_key
from signoff.infra.http.openapi import WRITE, body, headers, problems
from signoff.infra.postgres.views_dead_letters import LetterFilter, list_dead_letters, show_dead_letter

router = APIRouter(prefix="/v1/dead-letters", tags=["dead-letters"])

Letter = Annotated[
    str, Path(max_length=300, description="`message:12`, `effect:op_…`, `run:<job>` or `webhook:<sending>`")
]

_REASON = {"type": "string", "minLength": 1, "maxLength": MAX_REASON_CHARACTERS}
_KEY = headers(Idempotency_Key="The same request with the same key is done once")
REQUEUE = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": _REASON, "body": {"type": ["string", "null"], "contentEncoding": "base64"}},
}
DISCARD = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {
        "reason": _REASON,
        "substitute": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_INPUT_CHARACTERS},
    },
}


@router.get("", responses=problems(401, 403, 422, 429, 503))
async def list_(
    app: App,
    who: Caller,
    page: Paging,
    age: Ages,
    kind: Annotated[list[LetterKind] | None, Query()] = None,
    agent: str | None = None,
    tool: str | None = None,
    error: str | None = None,
) -> JSONResponse:
    """List what nobody has settled yet, newest first."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_dead_letters(conn, LetterFilter(kind or (), agent, tool, error, age), who, page))


@router.get("/{letter}", responses=problems(401, 403, 404, 422, 429, 503))
async def show(app: App, who: Caller, letter: Letter) -> JSONResponse:
    """Show a dead letter with its original bytes, as base64, and every error."""
    require_right(who, Right.operate)
    async with app.store.connection() as conn:
        return JSONResponse(await show_dead_letter(conn, LetterId.parse(letter), who))


@router.post("/{letter}/requeue", responses=WRITE, openapi_extra={**body(REQUEUE), "parameters": _KEY})
async def requeue_(app: App, who: Caller, letter: Letter, raw: JsonBody, http: HttpRequest) -> JSONResponse:
    """Let it be tried again; a message with another body, if one is given."""
    require_right(who, Right.operate)
    fields = bodies.object_of(raw, REQUEUE)
    return JSONResponse(await requeue(app, who, _request(letter, fields, http), _bytes(fields)))


@router.post("/{letter}/discard", responses=WRITE, openapi_extra={**body(DISCARD), "parameters": _KEY})
async def discard_(app: App, who: Caller, letter: Letter, raw: JsonBody, http: HttpRequest) -> JSONResponse:
    """Give it up; the agent is told the substitute of an effect."""
    require_right(who, Right.operate)
    fields = bodies.object_of(raw, DISCARD)
    substitute = bodies.text(fields, "substitute", MAX_INPUT_CHARACTERS) or GIVEN_UP
    return JSONResponse(await discard(app, who, _request(letter, fields, http), substitute))


def _request(letter: str, fields: Mapping[str, Any], http: HttpRequest) -> Request:
    key = read_idempotency_key(one_header(http, "idempotency-key"))
    reason = bodies.text(fields, "reason", MAX_REASON_CHARACTERS)
    assert reason is not None
    return Request(LetterId.parse(letter), reason, key)


def _bytes(fields: Mapping[str, Any]) -> bytes | None:
    value = fields.get("body")
    try:
        return None if value is None else base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise InvalidRequest("'body' must be bytes in base64", field="body") from None
