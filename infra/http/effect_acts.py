"""What operators do to effects, over HTTP. Each answers with the effect as it is then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_INPUT_CHARACTERS, MAX_NAME_CHARACTERS
from signoff.domain.operating import Finding, replay_effect, resolve_effect, skip_effect
from signoff.domain.operator_acts import Done
from signoff.domain.probing import probe_effect
from signoff.domain.settlements import Settlement
from signoff.domain.settling import confirm_settlement, withdraw_settlement
from signoff.infra.effect_results import pack_text
from signoff.infra.http import bodies
from signoff.infra.http.acting import REASON, RequestId, act_body, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.effects import OperationId
from signoff.infra.http.openapi import REPLAY, RESOLVE, SKIP, WRITE
from signoff.infra.postgres.views_effects import show_effect
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/effects/{operation_id}", tags=["effects"])

OF_SETTLEMENT: dict[str, Any] = {
    "type": "object",
    "required": ["settlement_id", "reason"],
    "additionalProperties": False,
    "properties": {"settlement_id": {"type": "string", "format": "uuid"}, "reason": REASON},
}
WAITS: dict[int | str, Any] = {202: {"description": "The effect has not changed yet"}, **WRITE}


@router.post("/replay", responses=WRITE, openapi_extra=act_body(REPLAY))
async def replay(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Plan a failed or dead effect again."""
    fields = _fields(who, raw, REPLAY)
    await replay_effect(app.store, app.hints, operation_id, _settlement(who, key, fields))
    return await _answer(app, operation_id, who)


@router.post("/resolve", responses=WAITS, openapi_extra=act_body(RESOLVE))
async def resolve(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Say what is known of an effect in doubt: applied, with the provider's reference, or not applied."""
    fields = _fields(who, raw, RESOLVE)
    finding, settlement = _finding(fields.get("finding")), _settlement(who, key, fields)
    text = bodies.text(fields, "result", MAX_INPUT_CHARACTERS)
    if finding is Finding.not_applied and text is not None:
        raise InvalidRequest("what was not applied has no 'result'", field="result")
    told = pack_text(text or f"Done; the provider's reference is {settlement.reference}.")
    result = told if finding is Finding.applied else None
    place, environment = (app.store, app.hints, operation_id), app.settings.environment
    done = await resolve_effect(*place, finding, settlement, result, environment=environment)
    return await _answer(app, operation_id, who, done)


@router.post("/skip", responses=WAITS, openapi_extra=act_body(SKIP))
async def skip(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """End an effect with a substitute, which the agent sees labelled as such."""
    fields = _fields(who, raw, SKIP)
    substitute = bodies.text(fields, "substitute", MAX_INPUT_CHARACTERS)
    if substitute is None:
        raise InvalidRequest("a 'substitute' is needed: it is what the agent is told", field="substitute")
    place, environment = (app.store, app.hints, operation_id), app.settings.environment
    settlement = _settlement(who, key, fields)
    done = await skip_effect(*place, settlement, pack_text(substitute), environment=environment)
    return await _answer(app, operation_id, who, done)


@router.post("/probe", status_code=202, responses=WAITS, openapi_extra=act_body(REPLAY))
async def probe(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Have a worker ask the provider about an effect in doubt; what it says is in `probes` of the effect."""
    fields = _fields(who, raw, REPLAY)
    await probe_effect(app.store, app.hints, operation_id, _settlement(who, key, fields))
    return await _answer(app, operation_id, who, status=202)


@router.post("/confirm", responses=WRITE, openapi_extra=act_body(OF_SETTLEMENT))
async def confirm(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """Carry out what somebody else has found out about an effect of high risk."""
    fields = _fields(who, raw, OF_SETTLEMENT)
    settlement_id = bodies.identifier(fields, "settlement_id")
    assert settlement_id is not None
    await confirm_settlement(app.store, app.hints, operation_id, settlement_id, _settlement(who, key, fields))
    return await _answer(app, operation_id, who)


@router.post("/withdraw", responses=WRITE, openapi_extra=act_body(OF_SETTLEMENT))
async def withdraw(app: App, who: Caller, operation_id: OperationId, key: RequestId, raw: JsonBody) -> JSONResponse:
    """End a finding that waits for a second person; nothing comes of it."""
    fields = _fields(who, raw, OF_SETTLEMENT)
    settlement_id = bodies.identifier(fields, "settlement_id")
    assert settlement_id is not None
    await withdraw_settlement(app.store, operation_id, settlement_id, _settlement(who, key, fields))
    return await _answer(app, operation_id, who)


def _fields(who: Principal, raw: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    require_right(who, Right.operate)
    known = set(schema["properties"])
    if not isinstance(raw, dict) or not known.issuperset(raw):
        raise InvalidRequest(f"an object with {', '.join(sorted(known))}, and nothing else, is expected")
    if "settlement_id" in known and raw.get("settlement_id") is None:
        raise InvalidRequest("'settlement_id' is needed", field="settlement_id")
    return raw


def _settlement(who: Principal, key: str | None, fields: Mapping[str, Any]) -> Settlement:
    return Settlement(who, reason_of(fields), bodies.text(fields, "reference", MAX_NAME_CHARACTERS), key)


def _finding(value: Any) -> Finding:
    try:
        return Finding(value)
    except ValueError:
        raise InvalidRequest(f"'finding' must be one of {', '.join(Finding)}", field="finding") from None


async def _answer(
    app: Services, operation_id: str, who: Principal, done: Done | None = None, status: int = 200
) -> JSONResponse:
    if done is not None and "waits_for_second" in done.outcome:
        status = 202
    async with app.store.connection() as conn:
        return JSONResponse(await show_effect(conn, operation_id, who), status)
