"""Patterns over tool names: `*` stands for any text, `?` for one character, all else for itself, case included."""

from __future__ import annotations

import re
from functools import lru_cache

_ANY_TEXT = "\ufffe"
_ANY_CHARACTER = "\uffff"


def is_exact(pattern: str) -> bool:
    return not set(pattern) & set("*?")


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # A run of stars is one star: written out, it would make matching exponential.
    text = re.sub(r"\*+", "*", pattern)
    return re.compile("".join({"*": ".*", "?": "."}.get(char) or re.escape(char) for char in text), re.DOTALL)


def matches(pattern: str, tool: str) -> bool:
    return _compiled(pattern).fullmatch(tool) is not None


def covers(broad: str, narrow: str) -> bool:
    """Whether each name that `narrow` matches is matched by `broad` too; False also where that is not plain to see."""
    if broad == narrow:
        return True
    if "?" in broad and not is_exact(narrow):
        return False
    # A placeholder in `narrow` can be taken up by a star of `broad` alone, and a star takes any text in its place.
    return matches(broad, narrow.replace("*", _ANY_TEXT).replace("?", _ANY_CHARACTER))
