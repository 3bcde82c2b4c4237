"""Forking and repairing jobs over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.fork_points import KeptDecisions
from signoff.domain.forking import fork_job
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.repairing import repair_job
from signoff.infra.http import bodies
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.openapi import WRITE, problems
from signoff.infra.postgres.views_checkpoints import list_checkpoints
from signoff.infra.postgres.views_jobs import show_job

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])

FORK: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {
        "reason": REASON,
        "checkpoint_id": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_CHARACTERS},
        "decisions": {"enum": [*KeptDecisions, None], "default": str(KeptDecisions.ask)},
    },
}
REPAIR: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON},
}


@router.get("/checkpoints", responses=problems(401, 403, 404, 422, 429, 503))
async def checkpoints(app: App, who: Caller, job_id: UUID) -> JSONResponse:
    """List the checkpoints that the job can be forked at, newest first, with what it was parked at there."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_checkpoints(conn, job_id, who))


@router.post("/fork", status_code=201, responses=WRITE, openapi_extra=act_body(FORK))
async def fork(app: App, who: Caller, job_id: UUID, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Begin a new job at a checkpoint of this one; answered with the new job."""
    require_right(who, Right.operate)
    fields = bodies.object_of(raw, FORK)
    done = await fork_job(
        app.store,
        app.hints,
        job_id,
        who,
        reason_of(fields),
        checkpoint_id=bodies.text(fields, "checkpoint_id", MAX_NAME_CHARACTERS),
        decisions=_decisions(fields),
        request_id=key,
    )
    new = UUID(done.outcome["job_id"])
    async with app.store.connection() as conn:
        shown = await show_job(conn, new, who)
    return JSONResponse(shown, 200 if done.repeated else 201, {"Location": f"/v1/jobs/{new}"})


@router.post("/repair", responses=WRITE, openapi_extra=act_body(REPAIR))
async def repair(app: App, who: Caller, job_id: UUID, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Ask again what was asked at the job's newest checkpoint, without the answers that are stored there."""
    require_right(who, Right.operate)
    reason = reason_of(bodies.object_of(raw, REPAIR))
    await repair_job(app.store, app.hints, job_id, who, reason, key)
    async with app.store.connection() as conn:
        return JSONResponse(await show_job(conn, job_id, who))


def _decisions(fields: Mapping[str, Any]) -> KeptDecisions:
    value = fields.get("decisions")
    try:
        return KeptDecisions.ask if value is None else KeptDecisions(value)
    except ValueError:
        raise InvalidRequest(f"'decisions' must be one of {', '.join(KeptDecisions)}", field="decisions") from None
