"""How everything stands, over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.infra.http.asking import App, Caller
from signoff.infra.http.openapi import problems
from signoff.infra.postgres.views_status import show_status

router = APIRouter(prefix="/v1/status", tags=["status"])


@router.get("", responses=problems(401, 403, 429, 503))
async def show(app: App, who: Caller) -> JSONResponse:
    """Show counts, what needs a person and the command that settles it, and what is held back."""
    async with app.store.connection() as conn:
        return JSONResponse(await show_status(conn, who))
