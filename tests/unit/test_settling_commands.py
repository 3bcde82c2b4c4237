"""An effect's screen offers the commands that its class and state take; what needs a person comes in order."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.domain.needs import LETTERS, needs
from signoff.infra.cli.effect_screen import settling_commands


def effect(status: str, effect_class: str = "opaque", **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "operation_id": "op_1",
        "class": effect_class,
        "settlement": None,
        "alarms": [],
        "purged_at": None,
    }
    return {**base, "status": status, **changes}


def verbs(view: dict[str, Any]) -> list[str]:
    return [command.split()[1] for command in settling_commands(view)]


@pytest.mark.parametrize(
    ("view", "offered"),
    [
        (effect("in_doubt"), ["resolve", "resolve", "skip"]),
        (effect("in_doubt", "queryable"), ["probe", "resolve", "resolve", "skip"]),
        (effect("in_doubt", settlement={"settlement_id": "s-1"}), ["confirm", "withdraw"]),
        (effect("failed"), ["replay", "skip"]),
        (effect("dead"), ["replay", "skip"]),
        (effect("failed", purged_at="2030-01-01T00:00:00+00:00"), []),
        (effect("succeeded"), []),
        (effect("retry_wait"), []),
        (effect("succeeded", alarms=[{"alarm_id": "a-1", "acknowledged_at": None}]), ["acknowledge"]),
        (effect("succeeded", alarms=[{"alarm_id": "a-1", "acknowledged_at": "2030-01-01"}]), []),
    ],
)
def test_what_is_offered(view: dict[str, Any], offered: list[str]) -> None:
    assert verbs(view) == offered


def found(**counts: int) -> dict[str, Any]:
    def one(name: str) -> dict[str, Any]:
        return {"count": counts.get(name, 0), "oldest_at": "2030-01-01T00:00:00+00:00", "oldest": f"{name}-1"}

    names = ("alarms", "doubts", "settlements", "held_refusals", "overdue", "reviews")
    return {**{name: one(name) for name in names}, "dead_letters": {kind: one(kind) for kind in LETTERS}}


def test_nothing_is_needed_where_nothing_waits() -> None:
    assert needs(found()) == []


def test_the_most_pressing_comes_first_with_its_command() -> None:
    told = needs(found(reviews=2, doubts=1, run=3, alarms=1))
    assert [(need.count, need.command) for need in told] == [
        (1, "signoff alarms list"),
        (1, "signoff effects show doubts-1"),
        (3, "signoff dead-letters list --kind run"),
        (2, "signoff reviews show reviews-1"),
    ]
