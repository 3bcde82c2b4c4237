"""Alarms over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.alarms import acknowledge_alarm
from signoff.domain.authority import Right, require_right
from signoff.domain.evidence import AlarmKind
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import Ages, App, Caller, JsonBody, Paging
from signoff.infra.http.bodies import object_of
from signoff.infra.http.openapi import LIST, WRITE
from signoff.infra.postgres.views_alarms import AlarmFilter, list_alarms

router = APIRouter(prefix="/v1/alarms", tags=["alarms"])

ACKNOWLEDGE: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON},
}


@router.get("", responses=LIST)
async def list_(
    app: App,
    who: Caller,
    page: Paging,
    age: Ages,
    acknowledged: bool = False,
    kind: AlarmKind | None = None,
    tool: str | None = None,
    job: UUID | None = None,
) -> JSONResponse:
    """List what may have happened twice, or other than recorded, newest first."""
    wanted = AlarmFilter(acknowledged, kind, tool, job, age)
    async with app.store.connection() as conn:
        return JSONResponse(await list_alarms(conn, wanted, who, page))


@router.post("/{alarm_id}/acknowledge", responses=WRITE, openapi_extra=act_body(ACKNOWLEDGE))
async def acknowledge(app: App, who: Caller, alarm_id: UUID, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Say that you have seen to it, and how."""
    require_right(who, Right.operate)
    done = await acknowledge_alarm(app.store, alarm_id, who, reason_of(object_of(raw, ACKNOWLEDGE)), key)
    return JSONResponse(dict(done.outcome))
