"""Is the process alive, and can it do its work."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.infra.http.asking import App
from signoff.infra.http.openapi import problems
from signoff.infra.postgres.schema import require_current_schema

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> JSONResponse:
    """Alive: asks nobody."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", responses=problems(503))
async def readyz(app: App) -> JSONResponse:
    """Ready: the database answers and its schema is this version's."""
    async with app.store.connection() as conn:
        await require_current_schema(conn)
    return JSONResponse({"status": "ready"})
