"""Strict JSON."""

from __future__ import annotations

import json

import pytest

from signoff.domain.errors import MalformedJson
from signoff.infra.json_text import parse_json


def test_json_is_read_exactly() -> None:
    raw = '{"a": [1, 1.5, true, null, "grüße"], "n": 123456789012345678901234567890}'
    assert parse_json(raw.encode()) == json.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"{} {}",
        b"{'a': 1}",
        b'{"a": 1, "a": 2}',
        b'{"b": {"a": 1, "a": 1}}',
        b'[{"a": 1, "\\u0061": 1}]',
        b"NaN",
        b'{"a": Infinity}',
        b"[-Infinity]",
        b"[1e999]",
        b"\xff",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        "{}".encode("utf-32"),
        b"[" * 100_000,
        b"[" * 102 + b"]" * 102,
        b"9" * 5000,
    ],
)
def test_what_is_not_one_strict_value_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse_json(raw)
