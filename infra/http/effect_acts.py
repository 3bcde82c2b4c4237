"""What operators do to effects, over HTTP. Each answers with the effect as it is then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import MAX_INPUT_CHARACTERS, MAX_NAME_CHARACTERS
from signoff.domain.operating import Finding, Settlement, replay_effect, resolve_effect, skip_effect
from signoff.infra.effect_results import pack_text
from signoff.infra.http import bodies
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.effects import OperationId
from signoff.infra.http.openapi import REPLAY, RESOLVE, SKIP, WRITE, body
from signoff.infra.postgres.views_effects import show_effect
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/effects/{operation_id}", tags=["effects"])

MAX_REASON_CHARACTERS = 2000


@router.post("/replay", responses=WRITE, openapi_extra=body(REPLAY))
async def replay(app: App, who: Caller, operation_id: OperationId, raw: JsonBody) -> JSONResponse:
    """Plan a failed or dead effect again."""
    require_right(who, Right.operate)
    fields = _fields(raw, {"reason"})
    await replay_effect(app.store, app.hints, operation_id, _settlement(who, fields))
    return await _answer(app, operation_id, who)


@router.post("/resolve", responses=WRITE, openapi_extra=body(RESOLVE))
async def resolve(app: App, who: Caller, operation_id: OperationId, raw: JsonBody) -> JSONResponse:
    """Say what is known of an effect in doubt: applied, with the provider's reference, or not applied."""
    require_right(who, Right.operate)
    fields = _fields(raw, {"reason", "finding", "reference", "result"})
    finding, settlement = _finding(fields.get("finding")), _settlement(who, fields)
    text = bodies.text(fields, "result", MAX_INPUT_CHARACTERS)
    if finding is Finding.not_applied and text is not None:
        raise InvalidRequest("what was not applied has no 'result'", field="result")
    result = pack_text(text or f"Done; the provider's reference is {settlement.reference}.")
    applied = finding is Finding.applied
    await resolve_effect(app.store, app.hints, operation_id, finding, settlement, result if applied else None)
    return await _answer(app, operation_id, who)


@router.post("/skip", responses=WRITE, openapi_extra=body(SKIP))
async def skip(app: App, who: Caller, operation_id: OperationId, raw: JsonBody) -> JSONResponse:
    """End an effect with a substitute, which the agent sees labelled as such."""
    require_right(who, Right.operate)
    fields = _fields(raw, {"reason", "substitute"})
    substitute = bodies.text(fields, "substitute", MAX_INPUT_CHARACTERS)
    if substitute is None:
        raise InvalidRequest("a 'substitute' is needed: it is what the agent is told", field="substitute")
    await skip_effect(app.store, app.hints, operation_id, _settlement(who, fields), pack_text(substitute))
    return await _answer(app, operation_id, who)


def _fields(raw: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, dict) or not known.issuperset(raw):
        raise InvalidRequest(f"an object with {', '.join(sorted(known))}, and nothing else, is expected")
    return raw


def _settlement(who: Principal, fields: Mapping[str, Any]) -> Settlement:
    reason = bodies.text(fields, "reason", MAX_REASON_CHARACTERS)
    if reason is None:
        raise InvalidRequest("a 'reason' is needed: it stays in the effect's history", field="reason")
    return Settlement(who, reason, bodies.text(fields, "reference", MAX_NAME_CHARACTERS))


def _finding(value: Any) -> Finding:
    try:
        return Finding(value)
    except ValueError:
        raise InvalidRequest(f"'finding' must be one of {', '.join(Finding)}", field="finding") from None


async def _answer(app: Services, operation_id: str, who: Principal) -> JSONResponse:
    async with app.store.connection() as conn:
        return JSONResponse(await show_effect(conn, operation_id, who))
