"""`Idempotency-Key` and `Prefer`."""

from __future__ import annotations

import pytest

from signoff.domain.errors import InvalidRequest
from signoff.infra.http.headers import read_idempotency_key, read_wait


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (None, None),
        ('"8e03978e"', "8e03978e"),
        ("8e03978e", "8e03978e"),
        (' "a b" ', "a b"),
        (r'"say \"hi\" \\"', 'say "hi" \\'),
        ("order:17/a", "order:17/a"),
    ],
)
def test_both_forms_of_a_key(header: str | None, key: str | None) -> None:
    assert read_idempotency_key(header) == key


@pytest.mark.parametrize(
    "header",
    ["", " ", '""', '" "', '"open', 'a"b', '"a" "b"', '"a";x=1', r'"a\n"', "a b", "ü", '"ü"', "x" * 201, "a,b"],
)
def test_malformed_keys(header: str) -> None:
    with pytest.raises(InvalidRequest):
        read_idempotency_key(header)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], None),
        (["wait=10"], 10),
        (["Wait = 10"], 10),
        (['wait="10"'], 10),
        (["respond-async, wait=10"], 10),
        (["respond-async", "wait=7; foo=bar"], 7),
        (["wait=0"], 0),
        (["wait=61"], 60),
        (["wait=999999999"], 60),
        (["wait=5, wait=50"], 5),
        (["wait=-1"], None),
        (["wait=1.5"], None),
        (["wait"], None),
        (["wait=١"], None),
        (["await=10"], None),
        (["wait=" + "9" * 5000], None),
    ],
)
def test_preferences(headers: list[str], seconds: int | None) -> None:
    assert read_wait(headers) == seconds
