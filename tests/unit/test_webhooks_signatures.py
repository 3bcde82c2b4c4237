"""Standard Webhooks signatures: strict, and every failure is the same named error."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from standardwebhooks import Webhook

from signoff.domain.errors import SignatureInvalid
from signoff.infra.webhooks.signatures import SignatureHeaders, new_secret, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BODY = '{"say": "grüße"}'.encode()


def signed(body: bytes = BODY, *, secret: str = SECRET, at: datetime = NOW, id_: str = "msg_1") -> SignatureHeaders:
    """As the reference library signs."""
    return SignatureHeaders(id_, str(int(at.timestamp())), Webhook(secret).sign(id_, at, body.decode()))


def refused(headers: SignatureHeaders, body: bytes = BODY, secret: str = SECRET) -> str:
    with pytest.raises(SignatureInvalid) as error:
        verify([secret], headers, body, now=NOW)
    return error.value.message


def test_the_specs_own_example_is_accepted() -> None:
    headers = SignatureHeaders(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )
    verify([SECRET], headers, b'{"test": 2432232314}', now=datetime.fromtimestamp(1614265330, UTC))


def test_a_new_secret_signs_what_it_verifies() -> None:
    secret = new_secret()
    verify([secret], signed(secret=secret), BODY, now=NOW)
    assert secret != new_secret()


@pytest.mark.parametrize(("seconds", "accepted"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)])
def test_five_minutes_both_ways(seconds: int, accepted: bool) -> None:
    headers = signed(at=NOW)
    with freeze_time(NOW + timedelta(seconds=seconds)):
        if accepted:
            verify([SECRET], headers, BODY, now=datetime.now(UTC))
        else:
            with pytest.raises(SignatureInvalid, match="five minutes"):
                verify([SECRET], headers, BODY, now=datetime.now(UTC))


def test_one_byte_more_breaks_the_signature() -> None:
    assert "no signature" in refused(signed(), BODY + b" ")


def test_another_id_time_or_secret_breaks_the_signature() -> None:
    headers = signed()
    refused(replace(headers, id="msg_2"))
    refused(replace(headers, timestamp=str(int(headers.timestamp) + 1)))
    refused(headers, secret=new_secret())


def test_one_good_signature_among_others_is_enough() -> None:
    headers = signed()
    other = signed(secret=new_secret()).signature
    verify([SECRET], replace(headers, signature=f"v2,abc {other} v1a,x {headers.signature}"), BODY, now=NOW)


def test_any_live_secret_may_sign_and_the_answer_says_which() -> None:
    other = new_secret()
    for live, place in (([other, SECRET], 1), ([SECRET, other], 0), (["whsec_", SECRET], 1)):
        assert verify(live, signed(), BODY, now=NOW) == place
    for dead in ([other], [other, new_secret()], []):
        with pytest.raises(SignatureInvalid):
            verify(dead, signed(), BODY, now=NOW)


@pytest.mark.parametrize("id_", ["", " ", "a.b", "a b", "ü", "x" * 257, "a\nb"])
def test_malformed_ids(id_: str) -> None:
    assert "webhook-id" in refused(replace(signed(), id=id_))


@pytest.mark.parametrize(
    "timestamp", ["", "now", "1e9", "-1", "+1777636800", "1777636800.0", "01777636800", "nan", "9" * 40, "١٧٧"]
)
def test_malformed_timestamps(timestamp: str) -> None:
    assert "webhook-timestamp" in refused(replace(signed(), timestamp=timestamp))


@pytest.mark.parametrize(
    "signature",
    ["", " ", "v1", "v1,", ",", "v1,???", "v1,ü", "v1,AAAA", "v1,a,b", "v1=abc", "v1a,AAAA", "v1,AAAA v1", "v1," * 17],
)
def test_malformed_signatures(signature: str) -> None:
    refused(replace(signed(), signature=signature))


def test_a_signature_with_junk_inside_its_base64_is_refused() -> None:
    headers = signed()
    refused(replace(headers, signature=headers.signature[:10] + "\n" + headers.signature[10:]))
    refused(replace(headers, signature=headers.signature + "*"))


def test_many_signatures_are_not_even_tried() -> None:
    headers = signed()
    assert "more than" in refused(replace(headers, signature=" ".join([headers.signature] * 17)))


def test_a_body_that_is_not_utf8_is_refused() -> None:
    assert "UTF-8" in refused(signed(), b"\xff\xfe")


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_ü", "whsec_a"])
def test_a_secret_that_cannot_be_used_accepts_nothing(secret: str) -> None:
    refused(signed(), secret=secret)
    empty = base64.b64encode(b"").decode()
    refused(replace(signed(), signature=f"v1,{empty}"), secret=secret)
