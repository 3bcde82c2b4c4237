"""What lists are narrowed by, as people say it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from signoff.domain.errors import InvalidRequest
from signoff.domain.filters import parse_label, parse_span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("2h", timedelta(hours=2)),
        ("30d", timedelta(days=30)),
        ("999999999d", timedelta(days=36500)),
    ],
)
def test_spans(text: str, span: timedelta) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["", "2", "h", "-2h", "2 h", "2w", "1.5h", "٢h", "2h\n", "9999999999s"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_span(text)


def test_labels() -> None:
    assert parse_label("team=eu=west") == ("team", "eu=west")
    assert parse_label("team=") == ("team", "")
    for text in ("team", "=eu", ""):
        with pytest.raises(InvalidRequest):
            parse_label(text)
