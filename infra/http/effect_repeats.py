"""Undoing effects and executing them again, over HTTP. Each answers with the review that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.operator_acts import Done
from signoff.domain.repeating import compensate_effect, execute_again
from signoff.domain.settlements import Settlement
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.bodies import object_of
from signoff.infra.http.effects import OperationId
from signoff.infra.http.openapi import WRITE
from signoff.infra.postgres.views_reviews import show_review
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/effects/{operation_id}", tags=["effects"])

AGAIN: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": REASON},
}
COMPENSATE: dict[str, Any] = {**AGAIN, "properties": {"reason": REASON, "args": {"type": ["object", "null"]}}}


@router.post("/compensate", status_code=201, responses=WRITE, openapi_extra=act_body(COMPENSATE))
async def compensate(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Ask for what undoes an effect that has succeeded: a call of its own, with a review of its own."""
    fields = _fields(who, raw, COMPENSATE)
    args = fields.get("args")
    if args is not None and not isinstance(args, dict):
        raise InvalidRequest("'args' must be an object", field="args")
    settlement = Settlement(who, reason_of(fields), request_id=key)
    environment = app.settings.environment
    return await _answer(
        app, who, await compensate_effect(app.store, operation_id, settlement, args, environment=environment)
    )


@router.post("/execute-again", status_code=201, responses=WRITE, openapi_extra=act_body(AGAIN))
async def again(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Ask for the same call once more, as an effect of its own, with a review of its own."""
    settlement = Settlement(who, reason_of(_fields(who, raw, AGAIN)), request_id=key)
    done = await execute_again(app.store, operation_id, settlement, environment=app.settings.environment)
    return await _answer(app, who, done)


def _fields(who: Principal, raw: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    require_right(who, Right.operate)
    return object_of(raw, schema)


async def _answer(app: Services, who: Principal, done: Done) -> JSONResponse:
    review_id = done.outcome["review_id"]
    async with app.store.connection() as conn:
        view = await show_review(conn, UUID(review_id), who)
    return JSONResponse({**done.outcome, "review": view}, 201, {"Location": f"/v1/reviews/{review_id}"})
