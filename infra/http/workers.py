"""Workers over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.draining import Which, drain_workers
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody, Paging
from signoff.infra.http.bodies import object_of, text
from signoff.infra.http.openapi import LIST, WRITE, problems
from signoff.infra.postgres.views_workers import drain_report, list_workers
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/workers", tags=["workers"])

DRAIN_ONE: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON},
}
DRAIN: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {
        "reason": REASON,
        "agent": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_CHARACTERS},
        "all": {"type": "boolean", "default": False},
    },
}


@router.get("", responses={**LIST, **problems(403)})
async def list_(app: App, who: Caller, page: Paging, stopped: bool = False) -> JSONResponse:
    """List the workers, the newest first, with how many jobs each runs; with `stopped` also those that are gone."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_workers(conn, stopped, who, page))


@router.post("/drain", responses=WRITE, openapi_extra=act_body(DRAIN))
async def drain_several(app: App, who: Caller, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Ask the workers of an agent, or all, to claim nothing more and give back what they run."""
    require_right(who, Right.operate)
    fields = object_of(raw, DRAIN)
    everyone = fields.get("all", False)
    if not isinstance(everyone, bool):
        raise InvalidRequest("'all' must be true or false", field="all")
    which = Which.wanted(None, text(fields, "agent", MAX_NAME_CHARACTERS), everyone)
    return await _drain(app, who, which, reason_of(fields), key)


@router.post("/{name}/drain", responses=WRITE, openapi_extra=act_body(DRAIN_ONE))
async def drain(app: App, who: Caller, name: str, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Ask one worker to claim nothing more and give back what it runs; shows what it still has."""
    require_right(who, Right.operate)
    return await _drain(app, who, Which.wanted(name, None, False), reason_of(object_of(raw, DRAIN_ONE)), key)


async def _drain(app: Services, who: Principal, which: Which, reason: str, key: str | None) -> JSONResponse:
    done = await drain_workers(app.store, who, which, reason, key)
    async with app.store.connection() as conn:
        return JSONResponse(await drain_report(conn, done.outcome["workers"], who))
