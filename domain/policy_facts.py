"""Paths into the facts of a call, as descriptions and `show` name them: `args.amount`, `job.labels.region`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from signoff.domain.conditions import VARIABLES
from signoff.domain.hiding import MASK
from signoff.domain.wording import did_you_mean

MISSING = "(missing)"


def fact_path_problems(path: str) -> Iterator[str]:
    """What is wrong with a path, in words that follow it."""
    root, *keys = path.split(".")
    if root not in VARIABLES:
        hint = did_you_mean(root, VARIABLES) or f"; there are {', '.join(VARIABLES)}"
        yield f"begins with an unknown fact, {root!r}{hint}"
    elif not all(key.strip() for key in keys):
        yield "has a name missing between its dots"
    elif "*" in keys:
        yield "names many facts: a * has no place here"


def look_up(facts: Mapping[str, Any], path: str) -> Any:
    """The fact; MISSING where there is none, and MASK for what lies in something hidden."""
    found: Any = facts
    for key in path.split("."):
        if isinstance(found, str) and found == MASK:
            return MASK
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, (list, tuple)) and key.isascii() and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return MISSING
    return found
