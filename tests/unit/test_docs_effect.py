"""The reference of @effect: its arguments with their defaults, what a tool knows and says, and what a status means."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from signoff import workers
from signoff.domain.effects import Outcome, Terms
from signoff.workers.current import CurrentEffect
from signoff.workers.declaring import EffectDeclaration
from signoff.workers.http_messages import MAX_CHARACTERS
from signoff.workers.http_statuses import STATUSES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "effect.md").read_text(encoding="utf-8")
RAISES = {Outcome.refused: "Refused", Outcome.not_applied: "NotApplied", Outcome.unknown: "Unknown"}
HOURS, MINUTES = timedelta(hours=1), timedelta(minutes=1)


def shown(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, timedelta):
        return f"`{value}`" if isinstance(value, str) else str(value)
    count, unit = (
        (value // HOURS, "hour")
        if value >= HOURS
        else (value // MINUTES, "minute")
        if value >= MINUTES
        else (value.seconds, "second")
    )
    return f"{count} {unit}" + ("s" if count != 1 else "")


def test_every_argument_has_its_row_and_its_default() -> None:
    _, _, *arguments = inspect.signature(EffectDeclaration.__call__).parameters
    section = PAGE.partition("## `current_effect()`")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))
    assert list(rows) == arguments
    assert rows == {name: shown(getattr(Terms(), name, None)) for name in arguments}


def test_what_a_tool_may_know_of_its_effect() -> None:
    named = set(re.findall(r"^\| `\.(\w+)", PAGE, re.MULTILINE))
    # What only the executor is there for.
    hidden = {"transaction", "references"}
    assert named == {name for name in dir(CurrentEffect) if not name.startswith("_")} - hidden


def test_what_authors_import_is_there() -> None:
    (line,) = re.findall(r"^`from signoff.workers import (.*?)`$", PAGE, re.MULTILINE | re.DOTALL)
    assert {name.strip() for name in line.split(",")} == set(workers.__all__) - {"Agent"}


def test_what_each_status_means() -> None:
    rows = re.findall(r"^\| (\d{3})(?:–(\d{3}))? \| .* \| (returns|raises `\w+`) \|$", PAGE, re.MULTILINE)
    documented = {(int(first), int(last or first)): word for first, last, word in rows}
    assert documented == {numbers: _word(outcome) for numbers, outcome in STATUSES.items()}
    assert f"up to {MAX_CHARACTERS} characters" in PAGE


def _word(outcome: Outcome) -> str:
    return "returns" if outcome is Outcome.succeeded else f"raises `{RAISES[outcome]}`"
