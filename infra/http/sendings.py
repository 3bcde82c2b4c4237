"""Sendings over HTTP: what is on its way to subscriptions, what has arrived, and what never will."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from signoff.domain.sendings import SendingStatus
from signoff.infra.http.asking import Ages, App, Caller, Paging
from signoff.infra.http.openapi import problems
from signoff.infra.postgres.views_subscriptions import SendingFilter, list_sendings

router = APIRouter(prefix="/v1/sendings", tags=["sendings"])


async def _wanted(
    age: Ages,
    status: Annotated[list[SendingStatus] | None, Query()] = None,
    job: UUID | None = None,
    event: UUID | None = None,
    event_type: str | None = None,
) -> SendingFilter:
    return SendingFilter(status or (), job, event, event_type, age)


Wanted = Annotated[SendingFilter, Depends(_wanted)]


@router.get("", responses=problems(401, 403, 422, 429, 503))
async def list_(app: App, who: Caller, page: Paging, wanted: Wanted) -> JSONResponse:
    """List what was sent, or is to be, to all subscriptions, newest first."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_sendings(conn, None, wanted, who, page))
