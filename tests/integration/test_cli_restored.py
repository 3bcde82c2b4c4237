"""`signoff restored`."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli
from tests.support.parked import parked


@pytest.fixture
def cli(database_url: str) -> Cli:
    return Cli(database_url, "redis://127.0.0.1:1")


def test_it_says_what_is_left_open(cli: Cli) -> None:
    cli.world(parked)
    said = cli.json(None, "restored", "--since", "2026-01-31T12:00:00Z", "--reason", "the disk is gone")
    assert {name: said[name] for name in ("since", "jobs", "reviews", "in_doubt", "keyed")} == {
        "since": "2026-01-31T12:00:00+00:00",
        "jobs": 1,
        "reviews": 1,
        "in_doubt": 0,
        "keyed": 0,
    }
    assert "pending reviews" in cli.ok(None, "restored", "--since", "2026-01-31T12:00:00+01:00", "--reason", "again")


def test_it_needs_a_time_with_its_zone(cli: Cli) -> None:
    for time in ("yesterday", "2026-01-31T12:00:00"):
        assert "with its zone" in cli.usage_error(None, "restored", "--since", time, "--reason", "the disk is gone")


def test_it_refuses_a_time_to_come(cli: Cli) -> None:
    assert "[invalid_request]" in cli.refused(None, "restored", "--since", "2999-01-01T00:00:00Z", "--reason", "x")
