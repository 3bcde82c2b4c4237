"""Delegations over HTTP: each person gives their own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from signoff.domain.authority import Right, require_right
from signoff.domain.delegating import delegate, end_delegation
from signoff.domain.grants import MOST_TOOLS, Scope
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.periods import Period
from signoff.infra.http.asking import App, Caller, JsonBody, Paging
from signoff.infra.http.bodies import object_of, text, texts
from signoff.infra.http.openapi import LIST, READ, WRITE, body, problems
from signoff.infra.postgres.views_people import list_delegations, show_delegation

router = APIRouter(prefix="/v1/delegations", tags=["delegations"])

NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
BODY: dict[str, Any] = {
    "type": "object",
    "required": ["to", "tools"],
    "additionalProperties": False,
    "properties": {
        "to": NAME,
        "tools": {"type": "array", "minItems": 1, "maxItems": MOST_TOOLS, "items": NAME},
        "when": {"type": ["string", "null"]},
        "expires_at": {"type": ["string", "null"], "format": "date-time"},
        "seconds": {"type": ["number", "null"], "exclusiveMinimum": 0},
    },
}


@router.get("", responses=LIST)
async def list_(app: App, who: Caller, page: Paging) -> JSONResponse:
    """List the delegations that the caller gave or holds, newest first; all of them for operators."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_delegations(conn, who, page))


@router.post("", status_code=201, responses=WRITE, openapi_extra=body(BODY))
async def create(app: App, who: Caller, raw: JsonBody) -> JSONResponse:
    """Let somebody decide in the caller's place, for some calls and some time."""
    require_right(who, Right.review)
    fields = object_of(raw, BODY)
    scope = Scope(texts(fields, "tools"), fields.get("when"))
    period = Period.read(fields.get("expires_at"), fields.get("seconds"))
    to = text(fields, "to", MAX_NAME_CHARACTERS)
    assert to is not None
    given = await delegate(app.store, who.name, to, scope, period, by=who.name)
    async with app.store.connection() as conn:
        return JSONResponse(await show_delegation(conn, given.grant.id), 201)


@router.delete("/{delegation_id}", status_code=204, responses={**READ, **problems(403)})
async def end(app: App, who: Caller, delegation_id: UUID) -> Response:
    """End a delegation at once, as its delegator or as an operator."""
    await end_delegation(app.store, delegation_id, who)
    return Response(status_code=204)
