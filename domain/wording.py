"""Words for messages about names that were mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the nearest known word, or nothing if none is near."""
    near = get_close_matches(word, sorted(map(str, known)), n=1, cutoff=0.65)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_word(word: object, known: Iterable[str]) -> str:
    """`'alow' is unknown; did you mean 'allow'?`, or the list of what would do."""
    words = list(known)
    if not isinstance(word, str):
        return f"must be one of {', '.join(words)}, as text"
    return f"{word!r} is unknown" + (did_you_mean(word, words) or f"; use one of {', '.join(words)}")
