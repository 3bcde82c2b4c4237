"""Dialects inside a signed envelope: as strict as over HTTP, and said where it is signed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.domain.dialects import DIALECTS
from signoff.domain.errors import Invalid, InvalidRequest
from signoff.infra.webhooks.inbound import Envelope, read_envelope
from tests.support.dialects import REVIEW_ID, dialect, golden, one_item, plain, two_items

NAMES = [one.name for one in DIALECTS]
OWN = {"decisions": [{"type": "approve"}]}
WHERE = {"review_id": str(REVIEW_ID), "reviewer": "rita"}


def cases(kind: str) -> list[Any]:
    found = [(name, number, case) for name in NAMES for number, case in enumerate(golden(name)[kind])]
    return [pytest.param(name, case, id=f"{name}-{number}") for name, number, case in found]


def envelopes(name: str, answer: Any) -> list[Envelope]:
    """The answer as it may come: with its dialect, and without at an endpoint that has this one."""
    said = json.dumps({**WHERE, "dialect": name, "answer": answer}).encode()
    silent = json.dumps({**WHERE, "answer": answer}).encode()
    another = next(other for other in NAMES if other != name)
    return [read_envelope(said), read_envelope(said, another), read_envelope(silent, name)]


@pytest.mark.parametrize(("name", "case"), cases("read"))
def test_what_is_of_the_form_is_read_as_over_http(name: str, case: dict[str, Any]) -> None:
    review = {1: one_item, 2: two_items}[case["items"]]()
    for envelope in envelopes(name, case["body"]):
        answers = [plain(answer) for answer in envelope.dialect.read(envelope.answer, review)]
        assert json.dumps(answers, sort_keys=True) == json.dumps(case["answers"], sort_keys=True)


@pytest.mark.parametrize(("name", "case"), cases("refused"))
def test_what_is_not_of_the_form_is_refused_as_over_http(name: str, case: dict[str, Any]) -> None:
    review = {1: one_item, 2: two_items}[case["items"]]()
    for envelope in envelopes(name, case["body"]):
        with pytest.raises(Invalid) as refused:
            envelope.dialect.read(envelope.answer, review)
        assert refused.value.code == case["code"]


@pytest.mark.parametrize("spoken", [None, *NAMES])
def test_decisions_are_langchains_at_every_endpoint(spoken: str | None) -> None:
    envelope = read_envelope(json.dumps({**WHERE, **OWN}).encode(), spoken)
    assert (envelope.dialect.name, envelope.answer) == ("langchain", OWN)


def test_an_answer_of_null_is_an_answer() -> None:
    envelope = read_envelope(json.dumps({**WHERE, "dialect": "agent-inbox", "answer": None}).encode())
    with pytest.raises(Invalid):
        envelope.dialect.read(envelope.answer, one_item())


@pytest.mark.parametrize(
    "body",
    [
        {**WHERE, **OWN, "dialect": "langchain"},
        {**WHERE, **OWN, "answer": OWN},
        {**WHERE, "dialect": "langchain"},
        {**WHERE, "answer": OWN},
        {**WHERE, "dialect": None, "answer": OWN},
        {**WHERE, "dialect": "cobol", "answer": OWN},
        {**WHERE, "dialect": ["langchain"], "answer": OWN},
        {**WHERE, "dialect": "langchain", "answer": OWN, "more": 1},
        {"dialect": "langchain", "answer": OWN},
        {**WHERE, "reviewer": "a\0b", "dialect": "langchain", "answer": OWN},
        [WHERE],
        None,
    ],
)
def test_what_is_no_envelope_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_envelope(json.dumps(body).encode())


@pytest.mark.parametrize("spoken", NAMES)
def test_an_unknown_dialect_is_not_read_as_the_endpoints(spoken: str) -> None:
    assert dialect(spoken)
    for name in (None, "cobol", 7):
        with pytest.raises(InvalidRequest, match="is no dialect"):
            read_envelope(json.dumps({**WHERE, "dialect": name, "answer": OWN}).encode(), spoken)
