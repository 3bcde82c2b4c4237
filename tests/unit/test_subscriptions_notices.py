"""What a notification says, and what nobody can make it say."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default as mail_policy
from typing import Any
from uuid import UUID, uuid4

import pytest

from signoff.domain.events import Event, EventType
from signoff.domain.notices import DEFAULTS, OTHER, check_template, clean, subject_of
from signoff.domain.subscriptions import EventFacts, EventFilter, SubscriptionKind
from signoff.infra.mail import make_mail
from signoff.infra.postgres.subscriptions import Subscription
from signoff.infra.webhooks.bodies import body_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
REVIEW, JOB = UUID(int=1), UUID(int=2)
REQUESTED = "signoff.review.requested.v1"


def body(
    kind: SubscriptionKind, *, event: str = REQUESTED, template: str | None = None, **facts: Any
) -> dict[str, Any]:
    subscription = Subscription(uuid4(), "leads", kind, "x", [event], EventFilter(), template, False, False, (0, 0))
    data = {"review_id": str(REVIEW), "items": [{"args": {"iban": "DE-secret"}}]}
    happened = Event(uuid4(), event, f"reviews/{REVIEW}", "signoff", data, JOB, 1, NOW, "1-1")
    about: dict[str, Any] = {"agent": "desk", "tools": ("refund",), "review_id": REVIEW, "job_id": JOB, **facts}
    found: dict[str, Any] = json.loads(body_of(subscription, happened, EventFacts(**about), "https://signoff.test/"))
    return found


def test_the_default_says_what_and_where() -> None:
    mail = body(SubscriptionKind.mail, descriptions=("Refund 40 on A-1",), deadline_at=NOW)
    assert mail["subject"] == "Please review: refund"
    for part in ("Refund 40 on A-1", "Agent desk", str(JOB), "2030-01-01 12:00 UTC"):
        assert part in mail["text"]
    assert f"https://signoff.test/v1/reviews/{REVIEW}" in mail["text"]
    assert "DE-secret" not in json.dumps(mail), "arguments are never told"


@pytest.mark.parametrize("event", [*DEFAULTS, "signoff.effect.failed.v1"])
def test_every_default_can_be_filled(event: str) -> None:
    check_template(DEFAULTS.get(event, OTHER))
    text = body(SubscriptionKind.slack, event=event)["text"]
    assert "{" not in text
    assert text.partition("\n")[0]


def test_a_template_of_ones_own() -> None:
    text = body(SubscriptionKind.slack, template="{{{tool}}} by {agent}: {deadline_at}")["text"]
    assert text == "{refund} by desk: none"


def test_what_a_model_wrote_stays_on_its_line() -> None:
    evil = "Hello\r\nBcc: all@shop.test\x1b[2J\u202eevil\u2028{review_id}\0"
    mail = body(SubscriptionKind.mail, template="{description}\n{tool}", descriptions=(evil,), tools=(evil,))
    assert mail["subject"] == "Hello Bcc: all@shop.test [2J evil {review_id}"
    assert mail["text"].count("\n") == 1
    sent = make_mail("signoff@shop.test", "leads@shop.test", json.dumps(mail), "id", NOW).as_bytes()
    parsed = message_from_bytes(sent, policy=mail_policy)
    assert parsed["Bcc"] is None
    assert set(parsed.keys()) == {
        *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
        *("Content-Type", "Content-Transfer-Encoding", "MIME-Version"),
    }


def test_slack_reads_no_mention_and_no_link_in_it() -> None:
    text = body(
        SubscriptionKind.slack, template="<!here> {description}", descriptions=("<!channel> <http://x|y> & co",)
    )
    assert text["text"] == "<!here> &lt;!channel&gt; &lt;http://x|y&gt; &amp; co"


def test_a_long_value_is_cut_and_a_subject_is_short() -> None:
    assert len(clean("x" * 9000)) == 2000
    assert len(subject_of("\n\n" + "x" * 9000)) == 200


def test_the_event_itself_goes_to_programs() -> None:
    event = body(SubscriptionKind.webhook)
    assert (event["specversion"], event["type"]) == ("1.0", str(EventType.review_requested))


def test_other_letters_arrive() -> None:
    content = json.dumps({"subject": "Прошу: ¥ 40", "text": "Grüße, 世界"})
    parsed = message_from_bytes(make_mail("a@b.test", "c@d.test", content, "id", NOW).as_bytes(), policy=mail_policy)
    assert parsed["Subject"] == "Прошу: ¥ 40"
    text = parsed.get_body()
    assert text is not None
    assert text.get_content().strip() == "Grüße, 世界"
