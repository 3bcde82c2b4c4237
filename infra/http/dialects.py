"""Which dialect a reviewer's program speaks: by the media type of what it sends, and of what it accepts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from signoff.domain.dialects import DEFAULT, DIALECTS, MEDIA_PREFIX, Dialect, media_type
from signoff.infra.http.asking import require_json
from signoff.infra.http.openapi import DECIDE, DECISION

OWN_VIEW = frozenset({"application/json", "application/*", "*/*"})


def decisions_body() -> dict[str, Any]:
    """The request body of decisions in every dialect, for `openapi_extra`."""
    own = {"application/json": {"schema": {"anyOf": [DECIDE, DECISION]}}}
    others = {media_type(dialect.name): {"schema": {"type": ["object", "array"]}} for dialect in DIALECTS}
    return {"requestBody": {"required": True, "content": {**own, **others}}}


def require_envelope(request: Request) -> None:
    """Nobody signs a header: the dialect of an envelope stands inside it."""
    require_json(request)
    kind = _kind(request.headers.get("content-type", ""))
    if kind.startswith(MEDIA_PREFIX):
        raise HTTPException(415, f"an envelope is application/json, and names its dialect inside; not {kind}")


async def _of_body(request: Request) -> Dialect:
    kind = _kind(request.headers.get("content-type", ""))
    return _named(kind) if kind.startswith(MEDIA_PREFIX) else DEFAULT


async def _of_answer(request: Request) -> Dialect | None:
    """The first of the accepted types that we know decides; None is our own view."""
    for accepted in ",".join(request.headers.getlist("accept")).split(","):
        kind = _kind(accepted)
        if kind.startswith(MEDIA_PREFIX):
            return _named(kind)
        if kind in OWN_VIEW:
            return None
    return None


def _kind(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _named(kind: str) -> Dialect:
    found = {media_type(dialect.name): dialect for dialect in DIALECTS}
    if kind not in found:
        raise HTTPException(415, f"{kind} is no dialect; there are application/json, {', '.join(found)}")
    return found[kind]


BodyDialect = Annotated[Dialect, Depends(_of_body)]
AnswerDialect = Annotated[Dialect | None, Depends(_of_answer)]
