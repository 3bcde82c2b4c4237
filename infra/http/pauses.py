"""Pauses over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.pausing import Scope, end_pause, pause_effects
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody, Paging
from signoff.infra.http.bodies import object_of, text
from signoff.infra.http.openapi import LIST, WRITE, problems
from signoff.infra.postgres.views_holding import list_pauses

router = APIRouter(prefix="/v1/pauses", tags=["pauses"])

NAME = {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
CREATE: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON, "agent": NAME, "tool": NAME, "everything": {"type": "boolean", "default": False}},
}
END: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON, "per_second": {"type": ["number", "null"], "minimum": 0.001, "maximum": 10000}},
}


@router.get("", responses={**LIST, **problems(403)})
async def list_(app: App, who: Caller, page: Paging, ended: bool = False) -> JSONResponse:
    """List the active pauses, newest first, with how much waits on each; with `ended` all there ever were."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_pauses(conn, ended, who, page))


@router.post("", status_code=201, responses=WRITE, openapi_extra=act_body(CREATE))
async def create(app: App, who: Caller, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Let nothing of an agent, of a tool, or at all be dispatched until the pause is ended."""
    require_right(who, Right.operate)
    fields = object_of(raw, CREATE)
    done = await pause_effects(app.store, who, _scope(fields), reason_of(fields), key)
    return JSONResponse(dict(done.outcome), 201)


@router.post("/{pause_id}/end", responses=WRITE, openapi_extra=act_body(END))
async def end(app: App, who: Caller, pause_id: UUID, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Let what it held back go on: all at once, or so many a second."""
    require_right(who, Right.operate)
    fields = object_of(raw, END)
    done = await end_pause(app.store, who, pause_id, reason_of(fields), key, per_second=_rate(fields))
    return JSONResponse(dict(done.outcome))


def _scope(fields: Mapping[str, Any]) -> Scope:
    everything = fields.get("everything", False)
    if not isinstance(everything, bool):
        raise InvalidRequest("'everything' must be true or false", field="everything")
    agent, tool = (text(fields, name, MAX_NAME_CHARACTERS) for name in ("agent", "tool"))
    return Scope.wanted(agent, tool, everything)


def _rate(fields: Mapping[str, Any]) -> float | None:
    rate = fields.get("per_second")
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float)):
        raise InvalidRequest("'per_second' must be a number", field="per_second")
    return rate
