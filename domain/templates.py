"""Descriptions that name facts of the call: `Refund {args.amount} to {args.customer}`; `{{` and `}}` are braces.

What comes from the call can't pass for the policy's own words: it stands on one line, is of bounded length, and holds
no characters that hide or turn text around.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from signoff.domain.policy_facts import fact_path_problems, look_up

MAX_VALUE = 200
MAX_TEXT = 4000

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_REPLACEMENT = "\ufffd"


def template_problems(text: str) -> Iterator[str]:
    """What is wrong with a description as a template."""
    for part in _PART.finditer(text):
        if part[0] in ("{", "}"):
            yield f"a {part[0]!r} stands alone at character {part.start() + 1}; write {part[0] * 2!r} for a brace"
        elif part[1] is not None:
            yield from (f"{part[0]!r} {problem}" for problem in fact_path_problems(part[1].strip()))


def filled(text: str, facts: Mapping[str, Any]) -> str:
    """The description for one call. Raises nothing; what is hidden has to be hidden in the facts."""
    whole = _PART.sub(lambda part: _filling(part, facts), text)
    return whole if len(whole) <= MAX_TEXT else whole[: MAX_TEXT - 1] + "…"


def clean(text: str) -> str:
    """The text on one line, without characters that don't show or turn text around."""
    spaced = " ".join(text.split())
    return "".join(_REPLACEMENT if unicodedata.category(char) in _UNSHOWN else char for char in spaced)


def _filling(part: re.Match[str], facts: Mapping[str, Any]) -> str:
    if part[1] is None:
        return part[0][0]
    return _in_words(look_up(facts, part[1].strip()))


def _in_words(value: Any) -> str:
    text = value if isinstance(value, str) else _json(value)
    short = clean(text[: 4 * MAX_VALUE])
    return short if len(short) <= MAX_VALUE and len(text) <= 4 * MAX_VALUE else short[: MAX_VALUE - 1] + "…"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    except (TypeError, ValueError, RecursionError):
        return f"(a {type(value).__name__} that can't be shown)"
