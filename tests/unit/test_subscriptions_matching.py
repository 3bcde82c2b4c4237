"""Which events a subscription is sent, and what a request for one may say."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.errors import InvalidRequest
from signoff.domain.notices import NOTIFYING
from signoff.domain.subscriptions import EventFacts, EventFilter, matches_type, parse_subscription

FACTS = EventFacts(
    agent="desk",
    groups=frozenset({"finance", "leads"}),
    rules=frozenset({"refunds"}),
    tools=("refund", "send_email"),
    review_id=uuid4(),
)
WEBHOOK = {"name": "billing", "kind": "webhook", "target": "https://x.test/"}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        *(("signoff.review.requested.v1", True), ("signoff.review.*", True), ("signoff.*", True)),
        *(("signoff.job.*", False), ("signoff.review.decided.v1", False), ("Signoff.*", False)),
    ],
)
def test_types(pattern: str, matches: bool) -> None:
    assert matches_type(["signoff.job.held.v1", pattern], "signoff.review.requested.v1") is matches


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        ({}, True),
        ({"agent": ("desk",)}, True),
        ({"agent": ("other",)}, False),
        ({"groups": ("legal", "finance")}, True),
        ({"groups": ("legal",)}, False),
        ({"rule": ("refunds",), "tool": ("re*",)}, True),
        ({"rule": ("refunds",), "tool": ("delete*",)}, False),
        ({"rule": ("mails",), "tool": ("refund",)}, False),
    ],
)
def test_every_given_field_must_match(wanted: dict[str, tuple[str, ...]], matches: bool) -> None:
    assert EventFilter(**wanted).matches(FACTS) is matches


@pytest.mark.parametrize("name", ["agent", "groups", "rule", "tool"])
def test_an_event_that_knows_nothing_of_it_does_not_match(name: str) -> None:
    assert not EventFilter(**{name: ("*",)}).matches(EventFacts())


def test_a_request_for_one() -> None:
    new = parse_subscription({**WEBHOOK, "filter": {"tool": ["refund*"]}, "allow_private": True})
    assert (new.name, new.event_types, new.filter.tool, new.after) == ("billing", ("signoff.*",), ("refund*",), None)
    mail = parse_subscription({"name": "leads", "kind": "mail", "target": "a@x.test", "template": "{tool}: {link}"})
    assert (mail.event_types, mail.template) == (NOTIFYING, "{tool}: {link}")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "no spaces"}, "name"),
        ({"name": None}, "name"),
        ({"kind": "fax"}, "kind"),
        ({"kind": ["mail"]}, "kind"),
        ({"target": ""}, "target"),
        ({"target": "https://x.test/\0"}, "target"),
        ({"event_types": []}, "event_types"),
        ({"event_types": "signoff.*"}, "event_types"),
        ({"event_types": ["signoff.reviews.*"]}, "event_types"),
        ({"filter": {"group": ["finance"]}}, "filter"),
        ({"filter": {"groups": "finance"}}, "filter.groups"),
        ({"filter": []}, "filter"),
        ({"template": "{tool}"}, "template"),
        ({"kind": "slack", "template": "{args}"}, "template"),
        ({"kind": "slack", "template": "{tool.__class__}"}, "template"),
        ({"kind": "slack", "template": "{tool!r}"}, "template"),
        ({"kind": "slack", "template": "{0}"}, "template"),
        ({"kind": "slack", "template": "{}"}, "template"),
        ({"kind": "slack", "template": "{tool"}, "template"),
        ({"allow_private": "yes"}, "allow_private"),
        ({"after": 7}, "after"),
    ],
)
def test_requests_that_are_wrong(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_subscription({**WEBHOOK, **changes})
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("raw", [None, [], {**WEBHOOK, "secret": "mine"}])
def test_no_request_at_all(raw: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_subscription(raw)


def test_a_mistyped_word_is_recognised() -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'description'"):
        parse_subscription({**WEBHOOK, "kind": "mail", "template": "{desription}"})
