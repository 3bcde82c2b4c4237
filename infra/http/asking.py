"""What handlers are given: the services, who asks, and the body as strictly read JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from signoff.domain.authority import Principal
from signoff.domain.errors import InvalidRequest
from signoff.domain.filters import Age, parse_label, parse_span
from signoff.infra.http.rate_limits import mark_known
from signoff.infra.json_text import parse_json
from signoff.infra.postgres.views import DEFAULT_ROWS, Page
from signoff.infra.services import Services
from signoff.infra.tokens import authenticate

DOOR = "http"

_bearer = HTTPBearer(auto_error=False, scheme_name="bearer", description="A token of `signoff tokens create`")


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _caller(
    request: Request,
    services: Annotated[Services, Depends(_services)],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    who = await authenticate(services.store, credentials.credentials if credentials else None)
    mark_known(request)
    return who


async def _json_body(request: Request) -> Any:
    """The body is read after the caller is known, and never by a content type that means something else."""
    require_json(request)
    return parse_json(await request.body())


async def _page(limit: int = DEFAULT_ROWS, cursor: str | None = None) -> Page:
    return Page(limit, cursor)


async def _age(older_than: str | None = None, newer_than: str | None = None) -> Age:
    spans = (None if text is None else parse_span(text) for text in (older_than, newer_than))
    return Age(*spans)


async def _labels(label: Annotated[list[str] | None, Query(description="NAME=VALUE")] = None) -> Mapping[str, str]:
    return dict(parse_label(text) for text in label or ())


def require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise HTTPException(415, f"the body must be application/json, not {kind or 'unnamed'}")


def one_header(request: Request, name: str) -> str | None:
    """Raises InvalidRequest if the header comes more than once: two readers could pick two values."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise InvalidRequest(f"the header {name} comes {len(values)} times")
    return values[0] if values else None


App = Annotated[Services, Depends(_services)]
Caller = Annotated[Principal, Depends(_caller)]
JsonBody = Annotated[Any, Depends(_json_body)]
Paging = Annotated[Page, Depends(_page)]
Ages = Annotated[Age, Depends(_age)]
Labels = Annotated[Mapping[str, str], Depends(_labels)]
