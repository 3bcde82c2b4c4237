"""The ledger beside the books of the services outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.support_desk.demo_checks import Books, Check, idempotency_key

SHORT = 10
WRAPPED = ("call", "subject", "text")


def show_books(console: Console, books: Books) -> None:
    console.print()
    console.print(_ledger(books))
    console.print(_payments(books))
    console.print(_mails(books))


def show_checks(console: Console, checks: Sequence[Check]) -> None:
    console.print()
    for done in checks:
        mark = "[green]✓[/green]" if done.passed else "[red]✗[/red]"
        console.print(f"{mark} {escape(done.what)}" + (f": {escape(done.problem)}" if done.problem else ""))


def _ledger(books: Books) -> Table:
    table = _table("Signoff's ledger", "job", "operation", "call", "status", "tries", "allowed by")
    for effect in sorted(books.effects, key=lambda one: (books.numbers[one["job_id"]], one["created_at"])):
        table.add_row(
            str(books.numbers[effect["job_id"]]),
            effect["operation_id"][:SHORT],
            escape(f"{effect['tool']} {_short(effect['args'])}"),
            effect["status"],
            str(effect["attempts"]),
            escape(effect["authority"]["reviewer"] or "the policy"),
        )
    return table


def _payments(books: Books) -> Table:
    table = _table("The payments service's books", "refund", "idempotency key", "order", "amount", "requests")
    for refund in books.refunds:
        requests = sum(request["key"] == refund["key"] for request in books.payment_requests)
        amount = f"{refund['amount']:.2f}"
        table.add_row(refund["id"], _short_key(books, refund["key"]), escape(refund["order_id"]), amount, str(requests))
    return table


def _mails(books: Books) -> Table:
    table = _table("The mail", "message id", "to", "subject", "text")
    for mail in books.mails:
        shown = mail["message_id"].strip("<>")[:SHORT]
        table.add_row(shown, escape(", ".join(mail["to"])), escape(mail["subject"]), escape(mail["body"]))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column not in WRAPPED)
    return table


def _short(args: Mapping[str, Any]) -> str:
    """What matters first: whose, how much, to whom; the words after it may be cut off."""
    return ", ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in args.values())


def _short_key(books: Books, key: str) -> str:
    known = any(idempotency_key(effect) == key for effect in books.effects)
    return f"{key[:SHORT]}….{key.rpartition('.')[2]}" if known else key
