"""What is done with a review beside deciding it, over HTTP. Each answers with the review as it is then."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain import reassigning, review_acts
from signoff.domain.authority import Principal
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.bodies import identifier, object_of
from signoff.infra.http.openapi import WRITE, body
from signoff.infra.postgres.views_reviews import show_review
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/reviews/{review_id}", tags=["reviews"])

CLAIM: dict[str, Any] = {
    "type": "object",
    "required": [],
    "additionalProperties": False,
    "properties": {
        "seconds": {
            "type": ["number", "null"],
            "minimum": 1,
            "maximum": review_acts.LONGEST_CLAIM_SECONDS,
            "default": review_acts.DEFAULT_CLAIM_SECONDS,
        }
    },
}
REASSIGN: dict[str, Any] = {
    "type": "object",
    "required": ["to"],
    "additionalProperties": False,
    "properties": {
        "to": {
            "type": "array",
            "maxItems": reassigning.MOST_NAMES,
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS},
        },
        "item_id": {"type": ["string", "null"], "format": "uuid"},
        "reason": {"type": ["string", "null"], "minLength": 1, "maxLength": review_acts.MAX_REASON_CHARACTERS},
    },
}
COMMENT: dict[str, Any] = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": review_acts.MAX_COMMENT_CHARACTERS}},
}
CANCEL: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": review_acts.MAX_REASON_CHARACTERS}},
}


@router.post("/claim", responses=WRITE, openapi_extra=body(CLAIM))
async def claim(app: App, who: Caller, review_id: UUID, raw: JsonBody) -> JSONResponse:
    """Hold the review: until then nobody else decides it. Claimed again it lasts longer."""
    asked = object_of(raw, CLAIM).get("seconds")
    seconds = review_acts.DEFAULT_CLAIM_SECONDS if asked is None else asked
    environment = app.settings.environment
    await review_acts.claim(app.store, review_id, who, environment=environment, seconds=seconds)
    return await _answer(app, review_id, who)


@router.post("/release", responses=WRITE)
async def release(app: App, who: Caller, review_id: UUID) -> JSONResponse:
    """End a claim, as who has it or as an operator."""
    await review_acts.release(app.store, review_id, who)
    return await _answer(app, review_id, who)


@router.post("/reassign", responses=WRITE, openapi_extra=body(REASSIGN))
async def reassign(app: App, who: Caller, review_id: UUID, raw: JsonBody) -> JSONResponse:
    """Narrow who is to decide an item, or all open ones, to groups and people; to nobody widens it again."""
    fields = object_of(raw, REASSIGN)
    await reassigning.reassign(
        app.store,
        review_id,
        who,
        fields["to"],
        environment=app.settings.environment,
        item_id=identifier(fields, "item_id"),
        reason=fields.get("reason"),
    )
    return await _answer(app, review_id, who)


@router.post("/comments", status_code=201, responses=WRITE, openapi_extra=body(COMMENT))
async def comment(app: App, who: Caller, review_id: UUID, raw: JsonBody) -> JSONResponse:
    """Add a comment, as whoever sees the review; also when it is closed."""
    fields = object_of(raw, COMMENT)
    await review_acts.comment(app.store, review_id, who, fields["text"])
    return await _answer(app, review_id, who, 201)


@router.post("/cancel", responses=WRITE, openapi_extra=body(CANCEL))
async def cancel(app: App, who: Caller, review_id: UUID, raw: JsonBody) -> JSONResponse:
    """Cancel what is open; the job goes on, and its agent is told that nobody decided."""
    fields = object_of(raw, CANCEL)
    environment = app.settings.environment
    await review_acts.cancel_review(app.store, app.hints, review_id, who, fields["reason"], environment=environment)
    return await _answer(app, review_id, who)


async def _answer(app: Services, review_id: UUID, who: Principal, status: int = 200) -> JSONResponse:
    async with app.store.connection() as conn:
        return JSONResponse(await show_review(conn, review_id, who), status)
