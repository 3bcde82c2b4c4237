"""The ledger over HTTP."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal
from signoff.domain.effects import EffectStatus
from signoff.infra.http.asking import Ages, App, Caller, Labels, Paging
from signoff.infra.http.openapi import LIST, READ
from signoff.infra.postgres.views_effects import EffectFilter, list_effects, show_effect
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/effects", tags=["effects"])

OperationId = Annotated[str, Path(pattern="^[A-Za-z0-9_.:-]+$", max_length=200)]


@router.get("", responses=LIST)
async def list_(
    app: App,
    who: Caller,
    page: Paging,
    age: Ages,
    labels: Labels,
    status: Annotated[list[EffectStatus] | None, Query()] = None,
    tool: str | None = None,
    agent: str | None = None,
    job: UUID | None = None,
    reviewer: str | None = None,
    error: str | None = None,
) -> JSONResponse:
    """List the effects of jobs that the caller may read, newest first."""
    wanted = EffectFilter(status or (), tool, job, agent, reviewer, error, age, labels)
    async with app.store.connection() as conn:
        return JSONResponse(await list_effects(conn, wanted, who, page))


@router.get("/{operation_id}", responses=READ)
async def show(app: App, who: Caller, operation_id: OperationId) -> JSONResponse:
    """Show an effect with its attempts, its history and what came back late."""
    return await _answer(app, operation_id, who)


async def _answer(app: Services, operation_id: str, who: Principal) -> JSONResponse:
    async with app.store.connection() as conn:
        return JSONResponse(await show_effect(conn, operation_id, who))
