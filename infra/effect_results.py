"""Results of effects outside a worker: what an operator gives in a tool's place, and what a reader is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import ormsgpack

from signoff.domain.told import pack_text

__all__ = ["pack_text", "result_view"]


def result_view(kind: str | None, raw: bytes | None) -> Mapping[str, Any] | None:
    """{"status", "content"} with what JSON can hold; other things are named by their kind."""
    if kind is None or raw is None:
        return None
    value = _read(kind, raw)
    if not isinstance(value, dict):
        return {"status": None, "content": _plain(value)}
    return {"status": _plain(value.get("status")), "content": _plain(value.get("content"))}


def _read(kind: str, raw: bytes) -> Any:
    if kind == "json":
        return json.loads(raw)
    if kind == "msgpack":
        return ormsgpack.unpackb(raw, ext_hook=_object, option=ormsgpack.OPT_NON_STR_KEYS)
    return f"<{kind}, {len(raw)} bytes>"


def _object(code: int, data: bytes) -> str:
    return f"<object, {len(data)} bytes>"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
