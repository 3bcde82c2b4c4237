"""Fields of a body that is an object with known names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from signoff.domain.canonical import scrub
from signoff.domain.errors import InvalidRequest


def object_of(raw: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises InvalidRequest for anything but an object with the required names, and no unknown one."""
    known: Mapping[str, Any] = schema["properties"]
    if not isinstance(raw, dict) or not set(known).issuperset(raw):
        raise InvalidRequest(f"an object with {', '.join(sorted(known))}, and nothing else, is expected")
    if missing := [name for name in schema["required"] if raw.get(name) is None]:
        raise InvalidRequest(f"'{missing[0]}' is needed", field=missing[0])
    return raw


def text(fields: Mapping[str, Any], name: str, most: int) -> str | None:
    """None where it is left out, or null. Raises InvalidRequest."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > most or scrub(value) != value:
        raise InvalidRequest(f"'{name}' must be text of 1 to {most} characters", field=name)
    return value


def texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Raises InvalidRequest for anything but a list of texts."""
    value = fields.get(name)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InvalidRequest(f"'{name}' must be a list of texts", field=name)
    return tuple(value)


def identifier(fields: Mapping[str, Any], name: str) -> UUID | None:
    """None where it is left out, or null. Raises InvalidRequest."""
    value = fields.get(name)
    try:
        return None if value is None else UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise InvalidRequest(f"'{name}' must be an id", field=name) from None
