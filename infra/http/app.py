"""The HTTP application."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute

from signoff.infra.http import (
    alarms,
    dead_letters,
    delegations,
    effect_acts,
    effect_repeats,
    effect_result,
    effects,
    endpoints,
    events,
    health,
    job_acts,
    job_forks,
    jobs,
    metrics,
    pauses,
    providers,
    replays,
    review_acts,
    reviews,
    sendings,
    standing,
    status,
    subscriptions,
    webhooks,
    workers,
)
from signoff.infra.http.access import AccessLog
from signoff.infra.http.limits import BodyLimit
from signoff.infra.http.problems import add_problem_handlers
from signoff.infra.http.rate_limits import RateLimit
from signoff.infra.services import Services
from signoff.infra.telemetry.metrics import Metrics


def make_app(services: Services, stopping: asyncio.Event) -> FastAPI:
    """Every route over these services; requests that wait end their wait once `stopping` is set."""
    app = FastAPI(
        title="Signoff",
        version=version("signoff"),
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.services = services
    app.state.stopping = stopping
    app.state.metrics = Metrics(services.store)
    parts = (
        jobs,
        job_acts,
        job_forks,
        reviews,
        review_acts,
        delegations,
        standing,
        webhooks,
        endpoints,
        effects,
        effect_acts,
        effect_repeats,
        replays,
        alarms,
        effect_result,
        events,
        subscriptions,
        sendings,
        dead_letters,
        pauses,
        providers,
        workers,
        status,
        health,
        metrics,
    )
    for part in parts:
        app.include_router(part.router)
    add_problem_handlers(app)
    settings = services.settings
    app.add_middleware(BodyLimit, most_bytes=settings.http_max_body_bytes)
    app.add_middleware(
        RateLimit,
        requests_per_minute=settings.http_requests_per_minute,
        failed_logins_per_minute=settings.http_failed_logins_per_minute,
    )
    app.add_middleware(AccessLog)
    return app


def _operation_id(route: APIRoute) -> str:
    return f"{route.tags[0]}_{route.name.rstrip('_')}"
