"""Subscriptions over HTTP: where events are sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.canonical import scrub
from signoff.domain.errors import InvalidRequest
from signoff.domain.sendings import SendingStatus
from signoff.domain.subscriptions import MAX_TARGET_CHARACTERS, MAX_VALUE_CHARACTERS, MAX_VALUES, SubscriptionKind
from signoff.infra.http.asking import App, Caller, JsonBody, Paging
from signoff.infra.http.openapi import WRITE, body, problems
from signoff.infra.http.sendings import Wanted
from signoff.infra.postgres.sendings import Range
from signoff.infra.postgres.views_subscriptions import (
    list_sendings,
    list_subscriptions,
    show_subscription,
)
from signoff.infra.services import Services
from signoff.infra.webhooks.subscribing import (
    DEFAULT_OVERLAP,
    LONGEST_OVERLAP,
    create_subscription,
    disable_subscription,
    enable_subscription,
    rotate_secret,
    send_again,
)

router = APIRouter(prefix="/v1/subscriptions", tags=["subscriptions"])

Reference = Annotated[str, Path(pattern="^[A-Za-z0-9._-]+$", max_length=100, description="Its name, or its id")]
MAX_REASON_CHARACTERS = 2000

_TEXTS = {
    "type": "array",
    "maxItems": MAX_VALUES,
    "items": {"type": "string", "minLength": 1, "maxLength": MAX_VALUE_CHARACTERS},
}
CREATE = {
    "type": "object",
    "required": ["name", "kind", "target"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$"},
        "kind": {"enum": [str(kind) for kind in SubscriptionKind]},
        "target": {"type": "string", "minLength": 1, "maxLength": MAX_TARGET_CHARACTERS},
        "event_types": {**_TEXTS, "type": ["array", "null"], "minItems": 1},
        "filter": {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {name: _TEXTS for name in ("agent", "groups", "rule", "tool")},
        },
        "template": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_TARGET_CHARACTERS},
        "allow_private": {"type": ["boolean", "null"], "default": False},
        "after": {"type": ["string", "null"], "description": "A cursor of /v1/events, or 'start'; null: from now on"},
    },
}
DISABLE = {
    "type": "object",
    "required": ["reason"],
    "additionalProperties": False,
    "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": MAX_REASON_CHARACTERS}},
}
ROTATE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "overlap_seconds": {"type": "integer", "minimum": 0, "maximum": int(LONGEST_OVERLAP.total_seconds())}
    },
}
REDELIVER = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "sending_id": {"type": ["string", "null"], "format": "uuid"},
        "status": {"enum": [str(status) for status in SendingStatus] + [None]},
        "since": {"type": ["string", "null"], "format": "date-time"},
        "until": {"type": ["string", "null"], "format": "date-time"},
        "dry_run": {"type": "boolean", "default": False},
    },
}
_LIST = problems(401, 403, 422, 429, 503)
_READ = problems(401, 403, 404, 422, 429, 503)


@router.get("", responses=_LIST)
async def list_(app: App, who: Caller, page: Paging) -> JSONResponse:
    """List the subscriptions, newest first."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_subscriptions(conn, who, page))


@router.post("", status_code=201, responses=WRITE, openapi_extra=body(CREATE))
async def create(app: App, who: Caller, raw: JsonBody) -> JSONResponse:
    """Send events to a target from now on; the answer holds the signing secret, this once."""
    created = await create_subscription(app.store, raw, who)
    location = {"Location": f"/v1/subscriptions/{created.id}"}
    return await _answer(app, str(created.id), who, 201, {"secret": created.secret}, location)


@router.get("/{subscription}", responses=_READ)
async def show(app: App, who: Caller, subscription: Reference) -> JSONResponse:
    """Show a subscription, without its secrets."""
    return await _answer(app, subscription, who)


@router.post("/{subscription}/disable", responses=WRITE, openapi_extra=body(DISABLE))
async def disable(app: App, who: Caller, subscription: Reference, raw: JsonBody) -> JSONResponse:
    """Send nothing there any more."""
    require_right(who, Right.operate)
    reason = _reason(_fields(raw, {"reason"}).get("reason"))
    await disable_subscription(app.store, subscription, who, reason)
    return await _answer(app, subscription, who)


@router.post("/{subscription}/enable", responses=WRITE)
async def enable(app: App, who: Caller, subscription: Reference) -> JSONResponse:
    """Go on where a disabled subscription stopped."""
    await enable_subscription(app.store, subscription, who)
    return await _answer(app, subscription, who)


@router.post("/{subscription}/rotate", responses=WRITE, openapi_extra=body(ROTATE))
async def rotate(app: App, who: Caller, subscription: Reference, raw: JsonBody) -> JSONResponse:
    """Give it a new secret, which the answer holds, this once; the old one signs too until the overlap ends."""
    require_right(who, Right.operate)
    seconds = _fields(raw, {"overlap_seconds"}).get("overlap_seconds", int(DEFAULT_OVERLAP.total_seconds()))
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= LONGEST_OVERLAP.total_seconds():
        raise InvalidRequest("'overlap_seconds' must be a whole number of seconds, 30 days at most")
    created = await rotate_secret(app.store, subscription, who, timedelta(seconds=seconds))
    return await _answer(app, str(created.id), who, 200, {"secret": created.secret})


@router.get("/{subscription}/sendings", responses=_READ)
async def sendings(app: App, who: Caller, subscription: Reference, page: Paging, wanted: Wanted) -> JSONResponse:
    """List what was sent there, or is to be, newest first."""
    async with app.store.connection() as conn:
        return JSONResponse(await list_sendings(conn, subscription, wanted, who, page))


@router.post("/{subscription}/redeliver", responses=WRITE, openapi_extra=body(REDELIVER))
async def redeliver(app: App, who: Caller, subscription: Reference, raw: JsonBody) -> JSONResponse:
    """Send again what has ended: one, or a range by status and time."""
    require_right(who, Right.operate)
    fields = _fields(raw, {"sending_id", "status", "since", "until", "dry_run"})
    dry_run = fields.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise InvalidRequest("'dry_run' must be true or false", field="dry_run")
    count = await send_again(app.store, subscription, who, _range(fields), dry_run=dry_run)
    return JSONResponse({"count": count, "dry_run": dry_run})


def _fields(raw: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, dict) or not known.issuperset(raw):
        raise InvalidRequest(f"an object with {', '.join(sorted(known))}, and nothing else, is expected")
    return raw


def _reason(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_REASON_CHARACTERS or scrub(value) != value:
        raise InvalidRequest(f"'reason' must be text of 1 to {MAX_REASON_CHARACTERS} characters", field="reason")
    return value


def _range(fields: Mapping[str, Any]) -> Range:
    sending_id, status = fields.get("sending_id"), fields.get("status")
    try:
        return Range(
            None if sending_id is None else UUID(sending_id),
            None if status is None else SendingStatus(status),
            _time(fields.get("since")),
            _time(fields.get("until")),
        )
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequest(
            "'sending_id' must be an id, 'status' one of pending, sent, dead, 'since' and 'until' times in ISO 8601"
        ) from None


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    time = datetime.fromisoformat(value)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


async def _answer(
    app: Services,
    reference: str,
    who: Principal,
    status: int = 200,
    more: Mapping[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    async with app.store.connection() as conn:
        view = await show_subscription(conn, reference, who)
    return JSONResponse({**view, **(more or {})}, status, headers)
