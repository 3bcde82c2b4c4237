from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.canonical import MAX_DEPTH, call_digest, canonical_json, operation_id, scrub, scrub_value
from signoff.domain.errors import UnreadableArguments

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
ANY_TEXT = st.text(st.characters(), max_size=20) | st.text(st.sampled_from("a\0\ud800\udfff\ufffd"), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@given(VALUES)
def test_reads_back_as_what_it_was(value: Any) -> None:
    text = canonical_json(value)
    assert repr(json.loads(text)) == repr(_sorted(value))
    assert canonical_json(json.loads(text)) == text


@given(VALUES, VALUES)
def test_different_values_have_different_texts(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == (repr(_sorted(one)) == repr(_sorted(other)))


@given(st.dictionaries(TEXT, SCALARS, max_size=6))
def test_the_order_of_keys_does_not_count(value: dict[str, Any]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_the_text_is_fixed() -> None:
    value = {"b": [1, 1.0, True, None, -0.0, 1e16, 2**80], "a": {"é": '\n"\u2028'}}
    expected = '{"a":{"é":"\\n\\"\u2028"},"b":[1,1.0,true,null,-0.0,1e+16,1208925819614629174706176]}'
    assert canonical_json(value) == expected.encode()


def test_numbers_that_python_calls_equal_are_kept_apart() -> None:
    assert len({canonical_json(value) for value in (1, 1.0, True, "1")}) == 4
    assert canonical_json(0.0) != canonical_json(-0.0)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {"b": math.nan}]}, "a[1].b"),
        ({"a": math.inf}, "a"),
        ({"a": -math.inf}, "a"),
        (["\ud800"], "[0]"),
        ({"a": "x\0"}, "a"),
        ({"a": {"\0": 1}}, "a"),
        ({"a": {1: 1}}, "a"),
        ({"a": b"x"}, "a"),
        ({"a": {1, 2}}, "a"),
        (Decimal("1.5"), ""),
        ({"a": 10**4300}, "a"),
        ({"a": -(10**5000)}, "a"),
    ],
)
def test_what_is_not_canonical_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(UnreadableArguments) as caught:
        canonical_json(value)
    assert caught.value.details["path"] == place
    assert caught.value.message.startswith(f"{place or 'the value'}: ")
    caught.value.message.encode()


def test_long_integers_are_exact_as_far_as_they_can_be_read_back() -> None:
    assert json.loads(canonical_json(10**4300 - 1)) == 10**4300 - 1


def test_depth_is_limited_whatever_the_stack_allows() -> None:
    canonical_json(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(UnreadableArguments, match="nested deeper"):
            canonical_json(nested(depth))


def test_the_digest_is_of_tool_and_arguments() -> None:
    expected = hashlib.sha256(b'{"args":{"amount":1},"tool":"refund"}').hexdigest()
    assert call_digest("refund", {"amount": 1}) == expected
    assert call_digest("refund", {"amount": 1.0}) != expected
    assert call_digest("refunds", {"amount": 1}) != expected
    with pytest.raises(UnreadableArguments, match=r"^args\.amount: not a finite number"):
        call_digest("refund", {"amount": math.nan})


def test_an_operation_id_is_fixed() -> None:
    encoded = b'["operation","root","message",2,0]'
    assert operation_id("root", "message", 2, 0) == "op_" + hashlib.sha256(encoded).hexdigest()[:40]


OPERATIONS = st.tuples(TEXT, TEXT, st.integers(0, 30), st.integers(0, 30))


@given(OPERATIONS, OPERATIONS)
def test_operations_share_an_id_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (operation_id(*one) == operation_id(*other)) == (one == other)


def test_parts_of_an_operation_do_not_run_together() -> None:
    assert operation_id("a", "bc", 1, 11) != operation_id("ab", "c", 1, 11)
    assert operation_id("a", "b", 1, 11) != operation_id("a", "b", 11, 1)
    assert operation_id('a","b', "c", 0, 0) != operation_id("a", 'b","c', 0, 0)


@given(ANY_TEXT)
def test_scrubbed_text_can_be_stored(text: str) -> None:
    clean = scrub(text)
    assert "\0" not in clean.encode().decode()
    assert len(clean) == len(text)
    assert all(new == old or new == "\ufffd" for new, old in zip(clean, text, strict=True))


DIRTY = st.recursive(
    SCALARS | ANY_TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4)
)


@given(DIRTY)
def test_a_scrubbed_value_is_canonical_and_loses_no_key(value: Any) -> None:
    clean = scrub_value(value)
    canonical_json(clean)
    assert _count(clean) == _count(value)
    assert scrub_value(clean) == clean


def test_scrubbing_reaches_keys_and_depths() -> None:
    assert scrub_value({"a\0": ["\ud800", {"b": ("\0",)}], "a\ufffd": 1}) == {
        "a\ufffd": 1,
        "a\ufffd\ufffd": ["\ufffd", {"b": ["\ufffd"]}],
    }
    with pytest.raises(UnreadableArguments):
        scrub_value(nested(100_000))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(_count(item) for item in value.values())
    return 1 + sum(map(_count, value)) if isinstance(value, (list, tuple)) else 1
