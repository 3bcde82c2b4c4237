"""Standing approvals over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from signoff.domain.authority import Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.periods import Period
from signoff.domain.standing_up import MAX_REASON_CHARACTERS, Stand, stand, withdraw
from signoff.domain.verdicts import Verdict
from signoff.infra.http.asking import App, Caller, JsonBody, Paging
from signoff.infra.http.bodies import identifier, object_of, text
from signoff.infra.http.openapi import LIST, READ, WRITE, body, problems
from signoff.infra.postgres.views_standing import StandingState, list_standing, show_standing

router = APIRouter(prefix="/v1/standing-approvals", tags=["standing"])

NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
BODY: dict[str, Any] = {
    "type": "object",
    "required": ["agent", "tool", "verdict"],
    "additionalProperties": False,
    "properties": {
        "agent": NAME,
        "tool": NAME,
        "verdict": {"enum": ["allow", "deny"]},
        "when": {"type": ["string", "null"]},
        "job_id": {"type": ["string", "null"], "format": "uuid"},
        "thread_id": {**NAME, "type": ["string", "null"]},
        "expires_at": {"type": ["string", "null"], "format": "date-time"},
        "seconds": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "reason": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_REASON_CHARACTERS},
    },
}


@router.get("", responses=LIST)
async def list_(app: App, who: Caller, page: Paging, state: StandingState | None = None) -> JSONResponse:
    """List standing approvals, newest first: those of the caller; all for operators and for who may give some."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_standing(conn, state, who, page))


@router.post("", status_code=201, responses=WRITE, openapi_extra=body(BODY))
async def create(app: App, who: Caller, raw: JsonBody) -> JSONResponse:
    """Allow or deny calls of one tool beforehand, for a job, a thread or some time."""
    require_right(who, Right.standing)
    fields = object_of(raw, BODY)
    approval = await stand(app.store, who, _wanted(fields))
    async with app.store.connection() as conn:
        return JSONResponse(await show_standing(conn, approval.id), 201)


@router.delete("/{standing_id}", status_code=204, responses={**READ, **problems(403)})
async def revoke(app: App, who: Caller, standing_id: UUID) -> Response:
    """Take a standing approval back at once, as who gave it or as an operator."""
    await withdraw(app.store, standing_id, who)
    return Response(status_code=204)


def _wanted(fields: Mapping[str, Any]) -> Stand:
    return Stand(
        agent=text(fields, "agent", MAX_NAME_CHARACTERS) or "",
        tool=text(fields, "tool", MAX_NAME_CHARACTERS) or "",
        verdict=_verdict(fields["verdict"]),
        condition=fields.get("when"),
        job_id=identifier(fields, "job_id"),
        thread_id=text(fields, "thread_id", MAX_NAME_CHARACTERS),
        period=Period.read(fields.get("expires_at"), fields.get("seconds")),
        reason=text(fields, "reason", MAX_REASON_CHARACTERS),
    )


def _verdict(value: Any) -> Verdict:
    if value not in ("allow", "deny"):
        raise InvalidRequest("'verdict' must be allow or deny", field="verdict")
    return Verdict(value)
