"""Patterns over tool names: `*` stands for any text, `?` for one character, all else for itself, case included."""

from __future__ import annotations

from fnmatch import fnmatchcase

_ANY_TEXT = "\ufffe"
_ANY_CHARACTER = "\uffff"


def is_exact(pattern: str) -> bool:
    return not set(pattern) & set("*?")


def matches(pattern: str, tool: str) -> bool:
    return fnmatchcase(tool, pattern)


def covers(broad: str, narrow: str) -> bool:
    """Whether each name that `narrow` matches is matched by `broad` too; False also where that is not plain to see."""
    if broad == narrow:
        return True
    if "?" in broad and not is_exact(narrow):
        return False
    # A placeholder in `narrow` can be taken up by a star of `broad` alone, and a star takes any text in its place.
    return matches(broad, narrow.replace("*", _ANY_TEXT).replace("?", _ANY_CHARACTER))
