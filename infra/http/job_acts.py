"""What is done with a job, over HTTP. Each answers with the job as it is then."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.cancelling import cancel_job
from signoff.domain.operator_acts import MAX_REASON_CHARACTERS
from signoff.domain.retrying import retry_job
from signoff.infra.http import bodies
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody, require_json
from signoff.infra.http.openapi import WRITE, body
from signoff.infra.json_text import parse_json
from signoff.infra.postgres.views_jobs import show_job
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["jobs"])

CANCEL: dict[str, Any] = {
    "type": "object",
    "required": [],
    "additionalProperties": False,
    "properties": {"reason": {**REASON, "type": ["string", "null"]}},
}
RETRY: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON},
}


async def _body_or_none(request: Request) -> Any:
    """Producers have always cancelled their own jobs without a body."""
    raw = await request.body()
    if not raw:
        return {}
    require_json(request)
    return parse_json(raw)


@router.post("/cancel", responses=WRITE, openapi_extra={**act_body(CANCEL), **body(CANCEL, required=False)})
async def cancel(
    app: App, who: Caller, job_id: UUID, key: RequestId, raw: Annotated[Any, Depends(_body_or_none)]
) -> JSONResponse:
    """Cancel a job; of a running one the cancellation is requested. Only who submitted it needs no reason."""
    fields = bodies.object_of(raw, CANCEL)
    reason = bodies.text(fields, "reason", MAX_REASON_CHARACTERS)
    await cancel_job(app.store, app.hints, job_id, who, reason, key)
    return await _answer(app, job_id, who)


@router.post("/retry", responses=WRITE, openapi_extra=act_body(RETRY))
async def retry(app: App, who: Caller, job_id: UUID, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Queue a failed or held job again."""
    require_right(who, Right.operate)
    reason = reason_of(bodies.object_of(raw, RETRY))
    await retry_job(app.store, app.hints, job_id, who, reason, key)
    return await _answer(app, job_id, who)


async def _answer(app: Services, job_id: UUID, who: Principal, status: int = 200) -> JSONResponse:
    async with app.store.connection() as conn:
        return JSONResponse(await show_job(conn, job_id, who), status)
