"""Standard Webhooks signatures, read strictly: whatever is wrong with them is one named error."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from signoff.domain.errors import SignatureInvalid

TOLERANCE = timedelta(minutes=5)
SECRET_PREFIX = "whsec_"
MOST_SIGNATURES = 16

_ID = re.compile(r"[!-\-/-~]{1,256}")  # printable, and no full stop: that is what separates the signed parts
_SECONDS = re.compile(r"[1-9][0-9]{0,10}")
_SHA256_BYTES = 32


@dataclass(frozen=True, slots=True)
class SignatureHeaders:
    """`webhook-id`, `webhook-timestamp` and `webhook-signature`, as they came; empty if they did not."""

    id: str
    timestamp: str
    signature: str


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def verify(live: Sequence[str], headers: SignatureHeaders, body: bytes, *, now: datetime) -> int:
    """The place of the secret that signed exactly these bytes, within five minutes of `now`.

    `live` are the endpoint's secrets: two while one takes the other's place.

    Raises:
        SignatureInvalid: for anything else, malformed headers included.
    """
    sent_at = _sent_at(headers, now)
    candidates = _candidates(headers.signature)
    expected = [_expected(secret, headers.id, sent_at, body) for secret in live]
    if not any(expected):
        raise SignatureInvalid("no secret of the endpoint can be used: make a new one")
    # Each is compared with each, and in constant time: how far a forgery came must not show.
    matches = [[hmac.compare_digest(one, candidate) for candidate in candidates] for one in expected]
    found = [place for place, row in enumerate(matches) if any(row)]
    if not found:
        raise SignatureInvalid("no signature of this request is the endpoint's")
    return found[0]


def _sent_at(headers: SignatureHeaders, now: datetime) -> datetime:
    if not _ID.fullmatch(headers.id):
        raise SignatureInvalid("webhook-id is missing or malformed")
    if not _SECONDS.fullmatch(headers.timestamp):
        raise SignatureInvalid("webhook-timestamp is missing or malformed: seconds since 1970 are expected")
    sent_at = datetime.fromtimestamp(int(headers.timestamp), tz=UTC)
    if abs(now - sent_at) > TOLERANCE:
        raise SignatureInvalid("webhook-timestamp is more than five minutes away from now")
    return sent_at


def _expected(secret: str, delivery_id: str, sent_at: datetime, body: bytes) -> bytes:
    """Empty, which is no candidate, for a secret that can't sign: another one still may."""
    try:
        signed = Webhook(secret).sign(msg_id=delivery_id, timestamp=sent_at, data=body.decode("utf-8"))
    except UnicodeDecodeError:
        raise SignatureInvalid("the body is not UTF-8: it can't have been signed") from None
    except (binascii.Error, ValueError, EmptyWebhookSecretError):
        return b""
    return base64.b64decode(signed.partition(",")[2])


def _candidates(header: str) -> list[bytes]:
    if not header:
        raise SignatureInvalid("webhook-signature is missing")
    tokens = header.split(" ")
    if len(tokens) > MOST_SIGNATURES:
        raise SignatureInvalid(f"webhook-signature holds more than {MOST_SIGNATURES} signatures")
    return [found for token in tokens if (found := _candidate(token)) is not None]


def _candidate(token: str) -> bytes | None:
    """The bytes of a `v1` signature; None for another version, or what is no signature."""
    version, _, encoded = token.partition(",")
    if version != "v1":
        return None
    try:
        found = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if len(found) == _SHA256_BYTES else None
