"""Endpoints over HTTP. A secret is in the answer that made it, and in no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, PrincipalKind, Right, require_right
from signoff.domain.dialects import DIALECTS, dialect_named
from signoff.domain.endpoints import Endpoint, read_endpoint_name, read_speaks_for
from signoff.domain.errors import InvalidRequest, RightMissing
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.openapi import READ, WRITE, body, problems
from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.postgres.views_endpoints import list_endpoints, show_endpoint
from signoff.infra.services import Services
from signoff.infra.webhooks.signatures import new_secret

router = APIRouter(prefix="/v1/endpoints", tags=["endpoints"])

LONGEST_OVERLAP_SECONDS = 30 * 86400
DEFAULT_OVERLAP_SECONDS = 86400
NOT_KEPT = {"Cache-Control": "no-store"}

CREATE = {
    "type": "object",
    "required": ["name", "speaks_for"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$"},
        "speaks_for": {"type": "array", "minItems": 1, "maxItems": 200, "items": {"type": "string", "minLength": 1}},
        "dialect": {"enum": [*(dialect.name for dialect in DIALECTS), None]},
    },
}
ROTATE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "overlap_seconds": {
            "type": "integer",
            "minimum": 0,
            "maximum": LONGEST_OVERLAP_SECONDS,
            "default": DEFAULT_OVERLAP_SECONDS,
        }
    },
}
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


@router.post("", status_code=201, responses=WRITE, openapi_extra=body(CREATE))
async def create(app: App, who: Caller, raw: JsonBody) -> JSONResponse:
    """Create an endpoint; the answer holds its secret, this once."""
    _require_operating_person(who)
    fields = _fields(raw, {"name", "speaks_for", "dialect"})
    dialect = fields.get("dialect")
    spoken = None if dialect is None else dialect_named(dialect).name
    new = Endpoint(read_endpoint_name(fields.get("name")), read_speaks_for(fields.get("speaks_for")), spoken)
    secret = new_secret()
    await _change(app, lambda table: table.add(new, secret, by=who.name))
    headers = {"Location": f"/v1/endpoints/{new.name}", **NOT_KEPT}
    return JSONResponse({**await _view(app, new.name), "secret": secret}, 201, headers)


@router.post("/{endpoint}/rotate", responses=WRITE, openapi_extra=body(ROTATE))
async def rotate(app: App, who: Caller, endpoint: EndpointName, raw: JsonBody) -> JSONResponse:
    """Give an endpoint a new secret, which the answer holds, this once; the old one is accepted for the overlap."""
    _require_operating_person(who)
    overlap, secret = _overlap(_fields(raw, {"overlap_seconds"})), new_secret()
    await _change(app, lambda table: table.rotate(endpoint, secret, overlap, by=who.name))
    return JSONResponse({**await _view(app, endpoint), "secret": secret}, headers=NOT_KEPT)


@router.post("/{endpoint}/revoke", responses=WRITE)
async def revoke(app: App, who: Caller, endpoint: EndpointName) -> JSONResponse:
    """Take an endpoint back: nothing that it signs is accepted any more."""
    require_right(who, Right.operate)
    await _change(app, lambda table: table.revoke(endpoint, by=who.name))
    return JSONResponse(await _view(app, endpoint))


def _require_operating_person(who: Principal) -> None:
    """Who is handed a secret can speak for persons: that is for no program, whose token an agent could hold."""
    require_right(who, Right.operate)
    if who.kind is not PrincipalKind.person:
        raise RightMissing(f"{who.name} is a service: only a person is handed an endpoint's secret")


def _fields(raw: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, dict) or not known.issuperset(raw):
        raise InvalidRequest(f"an object with {', '.join(sorted(known))}, and nothing else, is expected")
    return raw


def _overlap(fields: Mapping[str, Any]) -> timedelta:
    value = fields.get("overlap_seconds", DEFAULT_OVERLAP_SECONDS)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST_OVERLAP_SECONDS:
        wanted = f"a whole number from 0 to {LONGEST_OVERLAP_SECONDS}"
        raise InvalidRequest(f"'overlap_seconds' must be {wanted}", field="overlap_seconds")
    return timedelta(seconds=value)


async def _change(app: Services, work: Callable[[EndpointTable], Awaitable[None]]) -> None:
    async with app.store.begin() as tx:
        await work(EndpointTable(tx.conn))


async def _view(app: Services, name: str) -> dict[str, Any]:
    async with app.store.connection() as conn:
        return await show_endpoint(conn, name)
