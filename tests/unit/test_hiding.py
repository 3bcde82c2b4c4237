"""Arguments that are masked, and put back after an edit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.domain.errors import EditOutsideSchema
from signoff.domain.hiding import MASK, masked, path_problems, paths_of, unmasked

CARD = {"card": {"number": "4111", "holder": "Dana"}, "amount": 5}
PAYEES = {"items": [{"iban": "A", "amount": 1}, {"iban": "B", "amount": 2}, {"iban": "C", "amount": 2}]}
IBANS = ("items.*.iban",)


def payees(*pairs: tuple[str, int]) -> dict[str, Any]:
    return {"items": [{"iban": iban, "amount": amount} for iban, amount in pairs]}


@pytest.mark.parametrize(
    ("args", "hidden", "shown", "places"),
    [
        (CARD, ("card.number",), {"card": {"number": MASK, "holder": "Dana"}, "amount": 5}, ("card.number",)),
        (CARD, ("card",), {"card": MASK, "amount": 5}, ("card",)),
        (CARD, ("card", "card.number"), {"card": MASK, "amount": 5}, ("card",)),
        (CARD, ("card.*",), {"card": {"number": MASK, "holder": MASK}, "amount": 5}, ("card.number", "card.holder")),
        (CARD, ("*",), {"card": MASK, "amount": MASK}, ("card", "amount")),
        (CARD, ("card.pin", "other.number"), CARD, ()),
        (CARD, (), CARD, ()),
        (PAYEES, IBANS, payees((MASK, 1), (MASK, 2), (MASK, 2)), ("items.0.iban", "items.1.iban", "items.2.iban")),
        (PAYEES, ("items.1",), {"items": [PAYEES["items"][0], MASK, PAYEES["items"][2]]}, ("items.1",)),
        ({"n": None}, ("n",), {"n": MASK}, ("n",)),
    ],
)
def test_what_is_shown_and_where_it_is_hidden(
    args: dict[str, Any], hidden: tuple[str, ...], shown: dict[str, Any], places: tuple[str, ...]
) -> None:
    before = copy.deepcopy(args)
    assert masked(args, hidden) == shown
    assert paths_of(args, hidden) == places
    assert args == before


@pytest.mark.parametrize("card", ["4111", 4111, '{"number": "4111"}', ["4111"], [{"number": "4111"}]])
def test_where_the_shape_is_another_all_of_it_is_hidden(card: Any) -> None:
    args = {"card": card}
    assert masked(args, ("card.number",)) == {"card": MASK}
    assert unmasked({"card": MASK}, args, ("card.number",)) == args


def test_what_is_too_deep_to_look_into_is_not_shown() -> None:
    deep: Any = "4111"
    for _ in range(100_000):
        deep = [deep]
    assert "4111" not in str(masked({"deep": deep}, ("card",)))


def test_an_edit_beside_a_mask_keeps_the_hidden_value() -> None:
    edited = {"card": {"number": MASK, "holder": "Chris"}, "amount": 3, "note": MASK}
    found = unmasked(edited, CARD, ("card.number",))
    # Where nothing is hidden, the word is a word.
    assert found == {"card": {"number": "4111", "holder": "Chris"}, "amount": 3, "note": MASK}


def test_an_edit_may_replace_or_drop_the_hidden_value() -> None:
    assert unmasked({"card": {"number": "5"}}, CARD, ("card.number",)) == {"card": {"number": "5"}}
    assert unmasked({"amount": 1}, CARD, ("card.number",)) == {"amount": 1}
    assert unmasked({"card": {"number": "5"}}, CARD, ("card",)) == {"card": {"number": "5"}}


@pytest.mark.parametrize(
    ("edited", "hidden", "path"),
    [
        ({"card": MASK}, ("card.number",), "card"),
        ({"card": {"number": {"first": MASK}}}, ("card.number",), "card.number.first"),
        ({"card": {"number": MASK, "pin": MASK}}, ("card.*",), "card.pin"),
        ({"card": [MASK]}, ("card",), "card.0"),
        ({"cards": {"number": MASK}}, ("*.number",), "cards.number"),
    ],
)
def test_a_mask_where_nothing_was_hidden_is_refused(edited: dict[str, Any], hidden: tuple[str, ...], path: str) -> None:
    with pytest.raises(EditOutsideSchema, match="nothing was hidden there") as caught:
        unmasked(edited, CARD, hidden)
    assert caught.value.details == {"path": path}


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        (payees((MASK, 7), (MASK, 8), (MASK, 9)), payees(("A", 7), ("B", 8), ("C", 9))),
        (payees((MASK, 2), (MASK, 2), (MASK, 2)), payees(("A", 2), ("B", 2), ("C", 2))),
        (payees((MASK, 1)), payees(("A", 1))),
        (payees(("X", 5), (MASK, 1)), payees(("X", 5), ("A", 1))),
        (payees(), payees()),
    ],
)
def test_items_of_a_list_that_are_plainly_the_same(edited: dict[str, Any], expected: dict[str, Any]) -> None:
    assert unmasked(edited, PAYEES, IBANS) == expected


def test_items_that_moved_take_their_values_along() -> None:
    original = payees(("A", 1), ("B", 2))
    assert unmasked(payees((MASK, 2), (MASK, 1)), original, IBANS) == payees(("B", 2), ("A", 1))
    # The first was taken away and another added: the list is as long as it was.
    assert unmasked(payees((MASK, 2), ("X", 5)), original, IBANS) == payees(("B", 2), ("X", 5))


@pytest.mark.parametrize(
    "edited",
    [payees((MASK, 2), (MASK, 1), (MASK, 2)), payees((MASK, 2)), payees((MASK, 7)), payees((MASK, 1), (MASK, 9))],
)
def test_items_that_could_be_others_are_refused(edited: dict[str, Any]) -> None:
    with pytest.raises(EditOutsideSchema, match="not plain which hidden value"):
        unmasked(edited, PAYEES, IBANS)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("card..number", "has a name missing between its dots"),
        ("", "has a name missing between its dots"),
        ("card. number", "has a space beside a name"),
        ("args.card.number", "begins inside the arguments: write 'card.number'"),
        ("args", "begins inside the arguments: write '*'"),
        ("card*", "has a * within a name; it stands for a whole name alone"),
    ],
)
def test_a_path_that_would_hide_nothing_has_a_problem(path: str, problem: str) -> None:
    assert list(path_problems(path)) == [problem]
    assert list(path_problems("items.*.iban")) == []


KEYS = st.sampled_from(["a", "b", "0", "1"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just(MASK),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)
ARGS = st.dictionaries(KEYS, VALUES, max_size=3)
PATHS = st.lists(st.lists(KEYS | st.just("*"), min_size=1, max_size=3).map(".".join), max_size=3)


@given(ARGS, PATHS)
def test_what_was_masked_and_left_alone_is_what_it_was(args: dict[str, Any], hidden: list[str]) -> None:
    shown = masked(args, hidden)
    assert unmasked(shown, args, hidden) == args
    assert masked(shown, hidden) == shown


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (dict, list)):
        return [leaf for item in (value.values() if isinstance(value, dict) else value) for leaf in leaves(item)]
    return [value]


SECRETS = st.recursive(
    st.just("secret"), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(st.dictionaries(KEYS, SECRETS, max_size=3), KEYS | st.just("*"), KEYS | st.just("*"))
def test_nothing_below_a_hidden_place_is_shown(args: dict[str, Any], first: str, second: str) -> None:
    shown = masked(args, [f"{first}.{second}"])
    for key, value in shown.items():
        if first not in ("*", key):
            assert value == args[key]
        elif isinstance(value, dict):
            hit = [item for name, item in value.items() if second in ("*", name)]
            assert all(item == MASK for item in hit)
        elif isinstance(value, list):
            hit = [item for index, item in enumerate(value) if second in ("*", str(index))]
            assert all(item == MASK for item in hit)
        else:
            assert value == MASK


@given(ARGS, ARGS, PATHS)
def test_an_edit_is_put_back_or_refused_and_no_mask_is_left_where_something_is_hidden(
    edited: dict[str, Any], args: dict[str, Any], hidden: list[str]
) -> None:
    try:
        found = unmasked(edited, args, hidden)
    except EditOutsideSchema:
        return
    assert set(found) == set(edited)
    if MASK not in leaves(args):
        places = {tuple(place.split(".")) for place in paths_of(found, hidden)}
        assert all(at(found, place) != MASK for place in places)


def at(value: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value
