"""Replaying many over HTTP: the plan first, then what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from signoff.domain.authority import Right, require_right
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import InvalidRequest
from signoff.domain.filters import Age, parse_span
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.replay_plans import DEFAULT_LIMIT, MOST_ENTRIES, ReplayPlan, Wanted
from signoff.domain.replaying import check_plan, plan_replay
from signoff.infra.http import bodies
from signoff.infra.http.acting import REASON, reason_of
from signoff.infra.http.asking import App, Caller, JsonBody
from signoff.infra.http.openapi import WRITE, body
from signoff.infra.replaying import Pace, apply_plan

router = APIRouter(prefix="/v1/replays", tags=["replays"])

_NAME = {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
_TEXTS = {"type": ["array", "null"], "maxItems": MOST_ENTRIES, "items": {"type": "string"}}
PLAN: dict[str, Any] = {
    "type": "object",
    "required": [],
    "additionalProperties": False,
    "properties": {
        "status": {"type": ["array", "null"], "items": {"enum": [str(status) for status in EffectStatus]}},
        **{name: _NAME for name in ("agent", "tool", "error", "older_than", "newer_than")},
        "job": {"type": ["string", "null"], "format": "uuid"},
        "labels": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
        "operations": _TEXTS,
        "jobs": {"type": "boolean", "default": False},
        "job_ids": _TEXTS,
    },
}
APPLY: dict[str, Any] = {
    "type": "object",
    "required": ["plan", "reason"],
    "additionalProperties": False,
    "properties": {
        "plan": {"type": "object"},
        "reason": REASON,
        "limit": {"type": ["integer", "null"], "minimum": 0, "default": DEFAULT_LIMIT},
        "first": {"type": ["integer", "null"], "minimum": 1},
        "skip_outdated": {"type": "boolean", "default": False},
    },
}


@router.post("/plan", responses=WRITE, openapi_extra=body(PLAN))
async def plan(app: App, who: Caller, raw: JsonBody) -> JSONResponse:
    """Say what replaying all of these would do; nothing is changed."""
    require_right(who, Right.operate)
    wanted = _wanted(bodies.object_of(raw, PLAN))
    found = await plan_replay(app.store, wanted, who, environment=app.settings.environment)
    return JSONResponse(found.to_dict())


@router.post("/apply", responses=WRITE, openapi_extra=body(APPLY))
async def apply(app: App, who: Caller, raw: JsonBody) -> JSONResponse:
    """Do what a plan says, each item once, if the world is as it was when it was made."""
    require_right(who, Right.operate)
    fields = bodies.object_of(raw, APPLY)
    reason, limit = reason_of(fields), _number(fields, "limit", 0)
    checked = await check_plan(
        app.store,
        ReplayPlan.from_dict(fields["plan"]),
        who,
        environment=app.settings.environment,
        first=_number(fields, "first", 1),
        limit=DEFAULT_LIMIT if limit is None else limit,
        skip_outdated=_flag(fields, "skip_outdated"),
    )
    results = await apply_plan(app, checked, who, reason, Pace())
    return JSONResponse({"plan_id": checked.plan.id, "results": [result.to_dict() for result in results]})


def _wanted(fields: Mapping[str, Any]) -> Wanted:
    """Raises InvalidRequest."""
    names = {name: bodies.text(fields, name, MAX_NAME_CHARACTERS) for name in ("agent", "tool", "error")}
    spans = [bodies.text(fields, name, MAX_NAME_CHARACTERS) for name in ("older_than", "newer_than")]
    return Wanted(
        **names,
        statuses=_statuses(fields) or Wanted().statuses,
        job_id=bodies.identifier(fields, "job"),
        age=Age(*(None if span is None else parse_span(span) for span in spans)),
        labels=_labels(fields),
        operations=_texts(fields, "operations"),
        jobs=_flag(fields, "jobs"),
        job_ids=_job_ids(fields),
    )


def _statuses(fields: Mapping[str, Any]) -> tuple[EffectStatus, ...]:
    try:
        return tuple(EffectStatus(word) for word in _texts(fields, "status"))
    except ValueError:
        raise InvalidRequest(f"'status' must be a list of {', '.join(EffectStatus)}", field="status") from None


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return () if fields.get(name) is None else bodies.texts(fields, name)


def _job_ids(fields: Mapping[str, Any]) -> tuple[UUID, ...]:
    try:
        return tuple(UUID(text) for text in _texts(fields, "job_ids"))
    except ValueError:
        raise InvalidRequest("'job_ids' must be a list of ids", field="job_ids") from None


def _labels(fields: Mapping[str, Any]) -> dict[str, str]:
    labels = fields.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise InvalidRequest("'labels' must be an object of names and texts", field="labels")
    return labels


def _number(fields: Mapping[str, Any], name: str, least: int) -> int | None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InvalidRequest(f"'{name}' must be a whole number, at least {least}", field=name)
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequest(f"'{name}' must be true or false", field=name)
    return value
