"""Every dialect against its golden file: how a review is shown, what is read, and what is refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from signoff.domain.decisions import Answer
from signoff.domain.dialects import DEFAULT, DIALECTS, media_type
from signoff.domain.errors import Invalid
from signoff.domain.policy import DecisionType
from signoff.domain.reviews import ItemStatus, Review
from tests.support.dialects import GOLDEN, a_review, an_item, dialect, golden, one_item, plain, shown, two_items

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "dialects.md"
NAMES = [one.name for one in DIALECTS]


def cases(kind: str) -> list[Any]:
    found = [(name, number, case) for name in NAMES for number, case in enumerate(golden(name)[kind])]
    return [pytest.param(name, case, id=f"{name}-{number}") for name, number, case in found]


def review_of(case: dict[str, Any]) -> Review:
    return {1: one_item, 2: two_items}[case["items"]]()


def test_every_dialect_has_its_golden_file_and_media_type() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)
    assert media_type(DEFAULT.name) == "application/vnd.signoff.langchain+json"


def test_the_page_names_every_dialect() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == NAMES
    assert re.findall(r"^## `([a-z-]+)`$", page, re.MULTILINE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_review_is_shown_as_that_system_shows_it(name: str) -> None:
    assert json.loads(json.dumps(shown(name, two_items()))) == golden(name)["shown"]


@pytest.mark.parametrize(("name", "case"), cases("read"))
def test_what_is_of_the_form_is_read(name: str, case: dict[str, Any]) -> None:
    answers = dialect(name).read(case["body"], review_of(case))
    # Compared as text: 1, 1.0 and true are three arguments.
    assert as_text([plain(answer) for answer in answers]) == as_text(case["answers"])


@pytest.mark.parametrize(("name", "case"), cases("refused"))
def test_what_is_not_of_the_form_is_refused_by_name_and_place(name: str, case: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        dialect(name).read(case["body"], review_of(case))
    assert refused.value.code == case["code"]
    assert case["says"] in refused.value.message


@pytest.mark.parametrize("name", ["ag-ui", "openai-agents"])
def test_what_is_matched_by_id_shows_open_items_alone(name: str) -> None:
    review = a_review(an_item(1, status=ItemStatus.decided), an_item(2))
    assert "call-1" not in json.dumps(shown(name, review))
    assert "call-2" in json.dumps(shown(name, review))


def test_a_response_of_agent_inbox_is_a_refusal_where_no_respond_is_allowed() -> None:
    review = one_item(allowed_decisions=(DecisionType.approve, DecisionType.reject))
    (answer,) = dialect("agent-inbox").read([{"type": "response", "args": "wrong order"}], review)
    assert (answer.type, answer.message) == (DecisionType.reject, "wrong order")


def inbox_edit(review: Review, **args: Any) -> Answer:
    (answer,) = dialect("agent-inbox").read([{"type": "edit", "args": {"action": "refund", "args": args}}], review)
    return answer


def test_without_a_schema_the_unedited_value_says_what_its_text_stands_for() -> None:
    review = one_item(args_schema=None, args={"amount": 30, "order": "7", "urgent": False, "tags": ["a"]})
    edited = inbox_edit(review, amount="20", order="8", urgent="true", tags='["b"]', other="5").edited_args
    assert as_text(edited) == as_text({"amount": 20, "order": "8", "urgent": True, "tags": ["b"], "other": "5"})
    with pytest.raises(Invalid, match=r"\[0\]\.args\.amount"):
        inbox_edit(review, amount="many")


def test_an_unedited_value_keeps_its_type_though_its_text_would_fit() -> None:
    schema = {"type": "object", "properties": {"ref": {"type": ["string", "integer"]}, "rate": {"type": "number"}}}
    review = one_item(args_schema=schema, args={"ref": 7, "rate": 1.0})
    assert as_text(inbox_edit(review, ref="7", rate="1").edited_args) == as_text({"ref": 7, "rate": 1.0})
    assert as_text(inbox_edit(review, ref="8", rate="2.5").edited_args) == as_text({"ref": "8", "rate": 2.5})


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def test_the_schema_that_ag_ui_is_shown_takes_what_is_read_and_keeps_references() -> None:
    (interrupt,) = shown("ag-ui", one_item())["interrupts"]
    takes = Draft202012Validator(interrupt["responseSchema"]).is_valid
    args = {"order": "A-1", "amount": 1, "customer": {"id": 7}}
    assert takes({"approved": True})
    assert takes({"approved": False, "message": "no"})
    assert takes({"response": "blue"})
    assert takes({"approved": True, "editedArgs": args})
    assert not takes({"approved": True, "editedArgs": {**args, "customer": {"id": "7"}}})
    assert not takes({"approved": False, "editedArgs": args})
