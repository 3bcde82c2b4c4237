"""Reviews over HTTP."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from signoff.domain.deciding import decide_review
from signoff.domain.dialects import media_type
from signoff.domain.reviews import ReviewStatus
from signoff.infra.decisions_in import read_answers
from signoff.infra.http.asking import DOOR, Ages, App, Caller, JsonBody, Labels, Paging
from signoff.infra.http.dialects import AnswerDialect, BodyDialect, decisions_body
from signoff.infra.http.openapi import LIST, READ, WRITE, problems
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.views_reviews import decided_view, list_reviews, require_readable, show_review

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])


@router.get("", responses=LIST)
async def list_(
    app: App,
    who: Caller,
    page: Paging,
    age: Ages,
    labels: Labels,
    status: Annotated[list[ReviewStatus] | None, Query()] = None,
    reviewer: str | None = None,
    tool: str | None = None,
    agent: str | None = None,
    job_id: UUID | None = None,
    mine: bool = False,
) -> JSONResponse:
    """List the reviews that the caller may see, newest first; with `mine` those that wait for the caller."""
    wanted = ReviewFilter(status or (), reviewer, tool, agent, job_id, mine, age, labels)
    async with app.store.connection() as conn:
        return JSONResponse(await list_reviews(conn, wanted, who, page))


@router.get("/{review_id}", responses={**READ, **problems(415)})
async def show(app: App, who: Caller, review_id: UUID, dialect: AnswerDialect) -> JSONResponse:
    """Show a review with all that is needed to decide it, in the dialect that `Accept` names."""
    async with app.store.connection() as conn:
        view = await show_review(conn, review_id, who)
    if dialect is None:
        return JSONResponse(view)
    return JSONResponse(dialect.write(view), media_type=media_type(dialect.name))


@router.post("/{review_id}/decisions", responses=WRITE, openapi_extra=decisions_body())
async def decide(app: App, who: Caller, review_id: UUID, dialect: BodyDialect, raw: JsonBody) -> JSONResponse:
    """Decide items of a review, in the dialect of the body's media type: all decisions of the request, or none."""
    async with app.store.connection() as conn:
        await require_readable(conn, review_id, who)
        answers = await read_answers(conn, review_id, dialect, raw, who)
    decided = await decide_review(
        app.store,
        app.hints,
        review_id,
        answers,
        who,
        door=DOOR,
        environment=app.settings.environment,
    )
    return JSONResponse(decided_view(decided))
