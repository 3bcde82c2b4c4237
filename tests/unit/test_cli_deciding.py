"""From the options of `reviews decide` to the wire form."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer

from signoff.domain.decisions import NextStep, parse_answers
from signoff.domain.errors import EditIncomplete, InvalidRequest, MalformedJson, UnknownItem
from signoff.infra.cli.deciding import Wish, wire_form

ONE, TWO = str(UUID(int=1)), str(UUID(int=2))
NOTHING: dict[str, Any] = {
    "approve": False,
    "reject": None,
    "respond": None,
    "edit": None,
    "file": None,
    "then": None,
    "item": None,
    "dialect": None,
}


def item(item_id: str, call_id: str, status: str = "open") -> dict[str, Any]:
    return {"item_id": item_id, "tool_call_id": call_id, "status": status, "tool": "refund"}


ITEMS = [item(ONE, "call_1"), item(TWO, "call_2")]


def wish(**options: Any) -> Wish:
    return Wish(**{**NOTHING, **options})


@pytest.mark.parametrize(
    ("options", "decision"),
    [
        ({"approve": True}, {"type": "approve"}),
        ({"reject": "no"}, {"type": "reject", "message": "no", "then": None}),
        ({"reject": "", "then": NextStep.ask}, {"type": "reject", "message": "", "then": "ask"}),
        ({"respond": "yes"}, {"type": "respond", "message": "yes"}),
        ({"edit": '{"a": 1}'}, {"type": "edit", "edited_action": {"name": "refund", "args": {"a": 1}}}),
    ],
)
def test_each_option_is_a_decision_that_every_door_reads(options: dict[str, Any], decision: dict[str, Any]) -> None:
    body = wire_form(wish(**options), ITEMS[:1])
    assert body == {"decisions": [{**decision, "item_id": ONE}]}
    assert len(parse_answers(body)) == 1


def decided(body: Any) -> list[str]:
    return [decision["item_id"] for decision in body["decisions"]]


def test_without_item_all_open_ones_are_meant() -> None:
    assert decided(wire_form(wish(approve=True), ITEMS)) == [ONE, TWO]
    assert decided(wire_form(wish(approve=True), [item(ONE, "call_1", "decided"), ITEMS[1]])) == [TWO]


def test_with_none_open_all_are_sent_for_the_answer_that_says_so() -> None:
    closed = [item(ONE, "call_1", "decided"), item(TWO, "call_2", "decided")]
    assert decided(wire_form(wish(approve=True), closed)) == [ONE, TWO]


@pytest.mark.parametrize("name", [TWO, "call_2"])
def test_an_item_goes_by_its_id_or_its_calls(name: str) -> None:
    assert decided(wire_form(wish(approve=True, item=name), ITEMS)) == [TWO]


def test_an_unknown_or_ambiguous_item_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownItem, match=ONE):
        wire_form(wish(approve=True, item="call_3"), ITEMS)
    with pytest.raises(UnknownItem, match="names 2 items"):
        wire_form(wish(approve=True, item="call_1"), [ITEMS[0], item(TWO, "call_1")])


def test_an_edit_is_for_one_item() -> None:
    with pytest.raises(typer.BadParameter, match="--item"):
        wire_form(wish(edit="{}"), ITEMS)


@pytest.mark.parametrize(
    ("text", "error"),
    [("[1]", EditIncomplete), ("{", MalformedJson), ('{"a": 1, "a": 2}', MalformedJson), ('{"a": NaN}', MalformedJson)],
)
def test_edited_arguments_are_one_strict_object(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        wire_form(wish(edit=text), ITEMS[:1])


def test_a_file_is_the_body_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    file.write_text('{"decisions": [{"type": "approve"}]}')
    assert wire_form(wish(file=file), ITEMS) == {"decisions": [{"type": "approve"}]}
    with pytest.raises(InvalidRequest, match="can't be read"):
        wire_form(wish(file=tmp_path / "none.json"), ITEMS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"approve": True, "reject": "no"},
        {"reject": "", "respond": ""},
        {"approve": True, "then": NextStep.stop},
        {"file": Path("-"), "item": ONE},
        {"file": Path("-"), "approve": True},
        {"approve": True, "dialect": "langchain"},
        {"file": Path("-"), "dialect": "cobol"},
    ],
)
def test_one_decision_at_a_time_with_what_belongs_to_it(options: dict[str, Any]) -> None:
    with pytest.raises(typer.BadParameter):
        wish(**options).check()


@pytest.mark.parametrize(
    "options",
    [
        {"approve": True},
        {"reject": "", "then": NextStep.stop},
        {"edit": "{}", "item": ONE},
        {"file": Path("-"), "dialect": "ag-ui"},
    ],
)
def test_what_fits_is_let_through(options: dict[str, Any]) -> None:
    wish(**options).check()
