"""Metrics over HTTP."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from signoff.infra.http.openapi import problems
from signoff.infra.telemetry.metrics import Metrics

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **problems(503)})
async def metrics(request: Request) -> Response:
    """Metrics of the deployment in Prometheus's text form: numbers alone, so no token is asked for."""
    measured: Metrics = request.app.state.metrics
    return Response(await measured.text(), media_type=CONTENT_TYPE_LATEST)
