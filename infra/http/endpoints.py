"""Endpoints over HTTP: looked at, and taken back.

Whoever holds a secret decides in the name of persons. So none is made here: a right over HTTP would be enough to
approve what one may not. Endpoints are created, and secrets rotated, by who has the database: on the command line.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from signoff.domain.authority import Right, require_right
from signoff.infra.http.asking import App, Caller
from signoff.infra.http.openapi import READ, WRITE, problems
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.postgres.views_endpoints import list_endpoints, show_endpoint
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/endpoints", tags=["endpoints"])

EndpointName = Annotated[str, Path(pattern="^[A-Za-z0-9._-]+$", max_length=100)]


@router.get("", responses=problems(401, 403, 429, 503))
async def list_(app: App, who: Caller) -> JSONResponse:
    """List all endpoints, oldest first."""
    require_right(who, Right.operate)
    async with app.store.connection() as conn:
        return JSONResponse(await list_endpoints(conn))


@router.get("/{endpoint}", responses={**READ, **problems(403)})
async def show(app: App, who: Caller, endpoint: EndpointName) -> JSONResponse:
    """Show an endpoint: whom it speaks for, and its secrets' times."""
    require_right(who, Right.operate)
    return JSONResponse(await _view(app, endpoint))


@router.post("/{endpoint}/revoke", responses=WRITE)
async def revoke(app: App, who: Caller, endpoint: EndpointName) -> JSONResponse:
    """Take an endpoint back: nothing that it signs is accepted any more."""
    require_right(who, Right.operate)
    async with app.store.begin_as(who.name) as tx:
        await EndpointTable(tx.conn).revoke(endpoint, by=who.name)
    return JSONResponse(await _view(app, endpoint))


async def _view(app: Services, name: str) -> dict[str, Any]:
    async with app.store.connection() as conn:
        return await show_endpoint(conn, name)
