"""Whole results over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.infra.http.asking import App, Caller
from signoff.infra.http.effects import OperationId
from signoff.infra.http.openapi import READ, problems
from signoff.infra.postgres.views_results import show_result

router = APIRouter(prefix="/v1/effects/{operation_id}", tags=["effects"])


@router.get("/result", responses={**READ, **problems(409)})
async def result(app: App, who: Caller, operation_id: OperationId) -> JSONResponse:
    """Show an effect's whole result, also where the agent was told its beginning alone."""
    async with app.store.connection() as conn:
        return JSONResponse(await show_result(conn, operation_id, who))
