"""Reads the few plain English requests that the deterministic model understands."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

ORDER = re.compile(r"\b[A-Z]{1,4}-\d+\b")
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_AMOUNT = re.compile(r"(?<![\w.-])\d+(?:\.\d{1,2})?(?![\w-])")
_VERBS = r"(?:refund|pay back|give back|e-?mail|mail|write|tell|where|look|find|check|track|ask)\b"
_SENTENCE = re.compile(r"(?<=[.!?])\s+|[;\n]+")
_JOINT = re.compile(rf",?\s+(?:and|then)\s+(?:then\s+|also\s+|please\s+)*(?={_VERBS})", re.IGNORECASE)
_LOOKUP = re.compile(r"\b(?:where|look\s+up|find|check|track|status|what about)\b", re.IGNORECASE)
_REFUND = re.compile(r"\b(?:refund|pay back|give back|money back)\b", re.IGNORECASE)
_EMAIL = re.compile(r"\b(?:e-?mail|mail|write|tell)\b", re.IGNORECASE)
_REASON = re.compile(r"\b(?:because|since|as)\s+(.+)", re.IGNORECASE | re.DOTALL)
_BODY = re.compile(r"(?:\bthat\b|\bsaying\b|:)\s*(.+)", re.IGNORECASE | re.DOTALL)
_ABOUT = re.compile(r"\babout\s+(.+?)(?=\s+(?:that|saying)\b|:|$)", re.IGNORECASE | re.DOTALL)

EXAMPLES = {
    "lookup_order": "Where is order A-1001?",
    "refund": "Refund 42.50 on order A-1001 because the parcel came late.",
    "send_email": "Email the customer of A-1001 that the parcel is on its way.",
    "ask_customer": "I want my money back.",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """A call that the request asks for. With `address_of`, its `to` is the address that this order's lookup tells."""

    tool: str
    args: dict[str, Any]
    address_of: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What was understood of a request, in its order, and what was not."""

    wishes: list[Wish] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def read_request(text: str, tools: Collection[str]) -> Request:
    """Reads each part of the text by itself; a part that needs a tool which is not there counts as unread."""
    request = Request()
    for part in _parts(text):
        wish = _wish(part)
        if wish is not None and wish.tool in tools and (wish.address_of is None or "lookup_order" in tools):
            request.wishes.append(wish)
        else:
            request.unread.append(part)
    return request


def understood(tools: Collection[str]) -> str:
    """A polite list of what can be asked, given these tools."""
    known = [example for tool, example in EXAMPLES.items() if tool in tools]
    if not known:
        return "I am sorry, I don't understand that, and none of my tools is one that I know how to use."
    return "I am sorry, I don't understand that. I can read requests like these:\n" + "\n".join(f"- {x}" for x in known)


def _parts(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        for part in _JOINT.split(sentence):
            if part.strip(" .!?,"):
                yield part.strip()


def _wish(part: str) -> Wish | None:
    # The first of the verbs says what is wanted: "email … that the refund is on its way" is no refund.
    readers = ((_EMAIL, _read_email), (_REFUND, _read_refund), (_LOOKUP, _read_lookup))
    found = [(match.start(), read) for pattern, read in readers if (match := pattern.search(part))]
    for _, read in sorted(found, key=lambda pair: pair[0]):
        if wish := read(part):
            return wish
    return None


def _read_lookup(part: str) -> Wish | None:
    order = ORDER.search(part)
    return Wish("lookup_order", {"order_id": order.group()}) if order else None


def _read_refund(part: str) -> Wish:
    order, reason = ORDER.search(part), _REASON.search(part)
    wanted = part[: reason.start()] if reason else part
    amount = _AMOUNT.search(ORDER.sub(" ", wanted))
    if order is None or amount is None:
        return Wish("ask_customer", {"question": _question(order is None, amount is None)})
    why = _sentence(reason.group(1)).rstrip(".") if reason else "The customer asked for it"
    return Wish("refund", {"order_id": order.group(), "amount": float(amount.group()), "reason": why})


def _question(order: bool, amount: bool) -> str:
    missing = " and ".join(word for word, is_missing in (("order", order), ("amount", amount)) if is_missing)
    return f"We would like to help with the refund. Which {missing} is it about?"


def _read_email(part: str) -> Wish | None:
    address, order = ADDRESS.search(part), ORDER.search(part)
    about, body = _ABOUT.search(part), _BODY.search(part)
    if (address is None and order is None) or (about is None and body is None):
        return None
    topic = about.group(1).strip(" .!?") if about else f"your order {order.group()}" if order else "your request"
    text = _sentence(body.group(1)) if body else f"This is about {topic}."
    args = {"to": address.group() if address else "", "subject": f"About {topic}", "body": text}
    return Wish("send_email", args, None if address or order is None else order.group())


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return text if text.endswith(("!", "?")) else f"{text[:1].upper()}{text[1:]}."
