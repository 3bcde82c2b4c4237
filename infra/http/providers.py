"""Providers over HTTP: their circuits and limits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Right, require_right
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.pausing import close_circuit
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.bodies import object_of, text
from signoff.infra.http.openapi import WRITE, problems
from signoff.infra.postgres.views_holding import list_providers

router = APIRouter(prefix="/v1/providers", tags=["providers"])

# Its name is in the body: most have a slash in it.
CLOSE: dict[str, Any] = {
    "type": "object",
    "required": ["provider", "reason"],
    "additionalProperties": False,
    "properties": {
        "provider": {"type": "string", "minLength": 1, "maxLength": 2 * MAX_NAME_CHARACTERS + 1},
        "reason": REASON,
    },
}


@router.get("", responses=problems(401, 403, 429, 503))
async def list_(app: App, who: Caller) -> JSONResponse:
    """List the providers with limits, or that ever failed, and how much waits for each; what fails first."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_providers(conn, who))


@router.post("/close", responses=WRITE, openapi_extra=act_body(CLOSE))
async def close(app: App, who: Caller, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Forget the bad ends of a provider: what waits for it may try at once."""
    require_right(who, Right.operate)
    fields = object_of(raw, CLOSE)
    name = text(fields, "provider", 2 * MAX_NAME_CHARACTERS + 1) or ""
    done = await close_circuit(app.store, who, name, reason_of(fields), key)
    return JSONResponse(dict(done.outcome))
