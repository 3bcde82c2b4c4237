"""For whom an endpoint may speak."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import typer

from signoff.domain.authority import Delegation, Grant, Principal, PrincipalKind, Right
from signoff.domain.endpoints import Endpoint, may_speak_for, read_endpoint_name, read_speaks_for, require_voice
from signoff.domain.errors import EndpointMayNotSpeak, InvalidRequest
from signoff.infra.cli.overlap import read_overlap
from tests.support.parked import REVIEWER


def endpoint(*voices: str) -> Endpoint:
    return Endpoint("chat", frozenset(voices))


@pytest.mark.parametrize(
    ("voices", "may"),
    [
        (["finance"], True),
        (["@rita"], True),
        (["legal", "finance"], True),
        (["*"], True),
        ([], False),
        (["legal"], False),
        (["@ravi"], False),
        (["rita"], False),
        (["@finance"], False),
        (["Finance"], False),
    ],
)
def test_persons_by_name_and_groups_by_membership(voices: list[str], may: bool) -> None:
    assert may_speak_for(endpoint(*voices), REVIEWER) is may


def test_a_group_that_is_called_like_a_person_is_not_that_person() -> None:
    impostor = Principal("imp", PrincipalKind.person, frozenset({"rita"}), frozenset({Right.review}))
    assert not may_speak_for(endpoint("@rita"), impostor)
    with pytest.raises(EndpointMayNotSpeak, match=r"'chat' may not speak for imp"):
        require_voice(endpoint("@rita"), impostor)


def test_who_was_delegated_to_is_not_spoken_for_by_that() -> None:
    grant = Grant(uuid4(), ("*",))
    delegate = Principal("dan", PrincipalKind.person, delegations=(Delegation(grant, REVIEWER),))
    assert not may_speak_for(endpoint("finance", "@rita"), delegate)


@pytest.mark.parametrize("value", [["*"], ["a"], ["@a", "b"], ["x" * 200]])
def test_what_may_be_written(value: list[str]) -> None:
    assert read_speaks_for(value) == frozenset(value)


@pytest.mark.parametrize(
    "value", [None, "a", [], [""], [" "], ["@"], ["@ "], ["a\0"], ["\ud800"], ["x" * 201], ["*", "a"]]
)
def test_what_may_not(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="speaks_for"):
        read_speaks_for(value)


@pytest.mark.parametrize("name", ["", "a/b", "a\n", "ä", "x" * 101, None, 7])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_endpoint_name(name)


def test_times_of_an_overlap() -> None:
    texts = ["0", "0s", "90s", "15m", "24h", "30d"]
    assert [read_overlap(text).total_seconds() for text in texts] == [0, 0, 90, 900, 86400, 30 * 86400]
    for text in ("", "1", "-1h", "1w", "31d", "1.5h", "９h", "9999999d", "1h\n"):
        with pytest.raises(typer.BadParameter):
            read_overlap(text)
