"""Reviews over HTTP."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.reviews import ReviewStatus
from signoff.infra.http.asking import DOOR, App, Caller, JsonBody, Paging
from signoff.infra.http.openapi import DECIDE, LIST, READ, WRITE, body
from signoff.infra.postgres.views_reviews import decided_view, list_reviews, require_readable, show_review

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])


@router.get("", responses=LIST)
async def list_(app: App, who: Caller, page: Paging, status: ReviewStatus | None = None) -> JSONResponse:
    """List the reviews that the caller may see, newest first."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_reviews(conn, status, who, page))


@router.get("/{review_id}", responses=READ)
async def show(app: App, who: Caller, review_id: UUID) -> JSONResponse:
    """Show a review with all that is needed to decide it."""
    async with app.store.connection() as conn:
        return JSONResponse(await show_review(conn, review_id, who))


@router.post("/{review_id}/decisions", responses=WRITE, openapi_extra=body(DECIDE))
async def decide(app: App, who: Caller, review_id: UUID, raw: JsonBody) -> JSONResponse:
    """Decide items of a review: all decisions of the request, or none."""
    async with app.store.connection() as conn:
        await require_readable(conn, review_id, who)
    decided = await decide_review(
        app.store,
        app.hints,
        review_id,
        parse_answers(raw),
        who,
        door=DOOR,
        environment=app.settings.environment,
    )
    return JSONResponse(decided_view(decided))
