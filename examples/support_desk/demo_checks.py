"""Whether each thing happened exactly once: Signoff's ledger against the books of the services outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from examples.support_desk.demo_script import Expected

ALLOWING = ("approve", "edit")


@dataclass(frozen=True, slots=True)
class Books:
    """What everybody has written down. `numbers` are the jobs' numbers by their ids."""

    numbers: Mapping[str, int]
    jobs: Sequence[Mapping[str, Any]]
    reviews: Sequence[Mapping[str, Any]]
    effects: Sequence[Mapping[str, Any]]
    refunds: Sequence[Mapping[str, Any]]
    payment_requests: Sequence[Mapping[str, Any]]
    mails: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold; `problem` says how it does not."""

    what: str
    problem: str | None = None

    @property
    def passed(self) -> bool:
        return self.problem is None


def check(books: Books, expected: Expected | None = None) -> list[Check]:
    """All checks; `expected` where it is known beforehand what must have happened."""
    checks = [
        Check("every job has ended well", _jobs(books)),
        Check("each refund in the ledger was paid exactly once, and no other", _refunds(books)),
        Check("each mail in the ledger was sent exactly once, and no other", _mails(books)),
        Check("what was rejected or answered did not happen", _refused(books)),
        Check("what was approved or edited ran as it was decided", _allowed(books)),
    ]
    return [*checks, Check("the world has seen what the plan says", _planned(books, expected))] if expected else checks


def idempotency_key(effect: Mapping[str, Any]) -> str:
    return f"{effect['operation_id']}.{effect['generation']}"


def _jobs(books: Books) -> str | None:
    bad = [f"job {books.numbers[job['job_id']]}: {job['status']}" for job in books.jobs if job["status"] != "succeeded"]
    return ", ".join(bad) or None


def _refunds(books: Books) -> str | None:
    done = [effect for effect in _succeeded(books) if effect["tool"] == "refund"]
    wanted = Counter((idempotency_key(one), one["args"]["order_id"], one["args"]["amount"]) for one in done)
    paid = Counter((one["key"], one["order_id"], one["amount"]) for one in books.refunds)
    return _difference(wanted, paid)


def _mails(books: Books) -> str | None:
    done = [effect for effect in _succeeded(books) if effect["tool"] == "send_email"]
    wanted = Counter((_message_id(one["operation_id"]), one["args"]["to"], one["args"]["subject"]) for one in done)
    sent = Counter((one["message_id"], ", ".join(one["to"]), one["subject"]) for one in books.mails)
    return _difference(wanted, sent)


def _refused(books: Books) -> str | None:
    refused = {item["operation_id"] for item in _items(books) if item["decision"]["type"] not in ALLOWING}
    ledger = {effect["operation_id"] for effect in books.effects}
    keys = {request["key"] for request in books.payment_requests}
    mails = {mail["message_id"] for mail in books.mails}
    bad = [one for one in refused if one in ledger or _message_id(one) in mails or any(one in str(key) for key in keys)]
    return f"it did: {', '.join(bad)}" if bad else None


def _allowed(books: Books) -> str | None:
    decided = [item["decision"] for item in _items(books) if item["decision"]["type"] in ALLOWING]
    wanted = Counter((books_key(one["args"])) for one in decided)
    by_decision = [one for one in _succeeded(books) if one["authority"]["decision_id"] is not None]
    return _difference(wanted, Counter(books_key(one["args"]) for one in by_decision))


def books_key(args: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(args.items()))


def _planned(books: Books, expected: Expected) -> str | None:
    refunds = Counter((one["order_id"], one["amount"]) for one in books.refunds)
    mails = Counter(", ".join(mail["to"]) for mail in books.mails)
    return _difference(Counter(expected.refunds), refunds) or _difference(Counter(expected.mails), mails)


def _items(books: Books) -> list[Mapping[str, Any]]:
    return [item for review in books.reviews for item in review["items"] if item["decision"] is not None]


def _succeeded(books: Books) -> list[Mapping[str, Any]]:
    return [effect for effect in books.effects if effect["status"] == "succeeded"]


def _message_id(operation_id: str) -> str:
    return f"<{operation_id}@support-desk.example>"


def _difference(wanted: Counter[Any], seen: Counter[Any]) -> str | None:
    missing, extra = wanted - seen, seen - wanted
    parts = [("missing", missing), ("too much", extra)]
    return "; ".join(f"{word}: {list(found.elements())}" for word, found in parts if found) or None
