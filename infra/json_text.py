"""JSON as outsiders send it, read strictly: what two readers could read in two ways is refused."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from signoff.domain.canonical import MAX_DEPTH
from signoff.domain.errors import MalformedJson


def parse_json(raw: bytes) -> Any:
    """The one value in `raw`.

    Raises:
        MalformedJson: not UTF-8, not JSON, nested too deep, a key twice in one object, or a number that can't be held.
    """
    try:
        text = raw.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
    except RecursionError:
        raise MalformedJson("the body is nested too deep") from None
    except ValueError as error:
        raise MalformedJson(f"the body is not JSON: {error}") from None
    _check_depth(value, MAX_DEPTH)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:100]!r} comes twice in one object")
        found[key] = value
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _check_depth(value: Any, left: int) -> None:
    if left < 0:
        raise MalformedJson("the body is nested too deep")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _check_depth(child, left - 1)
