"""The webhook door: decisions signed per Standard Webhooks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse

from signoff.infra.http.asking import App, one_header
from signoff.infra.http.dialects import require_envelope
from signoff.infra.http.openapi import ENVELOPE, WRITE, body, headers
from signoff.infra.http.rate_limits import mark_known
from signoff.infra.postgres.views_reviews import decided_view
from signoff.infra.webhooks.inbound import decide_by_envelope
from signoff.infra.webhooks.signatures import SignatureHeaders

DOOR = "webhook"

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

_SIGNATURE = headers(
    webhook_id="The id of this delivery: it counts once",
    webhook_timestamp="Seconds since 1970, at most five minutes away",
    webhook_signature="`v1,<base64 of HMAC-SHA256>`; several, separated by spaces, while a secret is changed",
)


@router.post("/{endpoint}/decisions", responses=WRITE, openapi_extra={**body(ENVELOPE), "parameters": _SIGNATURE})
async def decide(
    app: App, request: Request, endpoint: Annotated[str, Path(pattern="^[!-~]+$", max_length=200)]
) -> JSONResponse:
    """Decide in the name of the reviewer that a signed envelope names."""
    require_envelope(request)
    decided = await decide_by_envelope(
        app.store,
        app.hints,
        endpoint,
        SignatureHeaders(*(one_header(request, f"webhook-{name}") or "" for name in ("id", "timestamp", "signature"))),
        await request.body(),
        now=datetime.now(UTC),
        door=DOOR,
        environment=app.settings.environment,
    )
    mark_known(request)
    return JSONResponse(decided_view(decided))
