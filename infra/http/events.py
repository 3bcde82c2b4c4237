"""Events over HTTP, for who missed some."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.infra.http.asking import App, Caller
from signoff.infra.http.openapi import problems
from signoff.infra.postgres.views_events import DEFAULT_EVENTS, START, list_events

router = APIRouter(prefix="/v1/events", tags=["events"])


@router.get("", responses=problems(401, 403, 422, 429, 503))
async def list_(app: App, who: Caller, after: str = START, limit: int = DEFAULT_EVENTS) -> JSONResponse:
    """List events behind a cursor, oldest first, as CloudEvents."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_events(conn, after, who, limit))
