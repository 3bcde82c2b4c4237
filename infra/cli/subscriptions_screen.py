"""Subscriptions and sendings for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.infra.cli.output import moment, more, print_facts, print_table

View = Mapping[str, Any]


def print_subscriptions(page: View) -> None:
    columns = ("name", "kind", "target", "events", "pending", "dead", "created", "disabled")
    print_table(columns, [_row(found) for found in page["subscriptions"]])
    more(page)


def print_subscription(found: View) -> None:
    print_facts(
        {
            "name": found["name"],
            "id": found["id"],
            "sends": f"{found['kind']} to {found['target']}",
            "events": ", ".join(found["event_types"]),
            "only of": _filter(found["filter"]),
            "template": found["template"],
            "private": "allowed" if found["allow_private"] else None,
            "created": f"{moment(found['created_at'])} by {found['created_by']}",
            "disabled": _disabled(found),
            "cursor": found["cursor"],
            "pending": found["pending"],
            "dead": found["dead"],
            "secrets": "\n".join(_secret(secret) for secret in found["secrets"]) or None,
        }
    )


def print_sendings(page: View) -> None:
    columns = ("sending", "subscription", "event", "status", "attempts", "last answer", "last", "next", "job")
    print_table(columns, [_sending(row) for row in page["sendings"]])
    more(page)


def _row(found: View) -> tuple[object, ...]:
    names = ("name", "kind", "target")
    counts = (found["pending"], found["dead"])
    events = ", ".join(found["event_types"])
    return (*(found[name] for name in names), events, *counts, moment(found["created_at"]), _disabled(found))


def _filter(wanted: View) -> str | None:
    return "; ".join(f"{name} {', '.join(values)}" for name, values in wanted.items()) or None


def _disabled(found: View) -> str | None:
    if found["disabled_at"] is None:
        return None
    return f"{moment(found['disabled_at'])} by {found['disabled_by']}: {found['disabled_reason']}"


def _secret(secret: View) -> str:
    ends = f", signs until {moment(secret['ends_at'])}" if secret["ends_at"] else ", signs"
    return f"of {moment(secret['created_at'])}{ends}"


def _sending(row: View) -> tuple[object, ...]:
    answer = row["last_error"] or row["last_status"]
    names = (row["sending_id"], row["subscription"], row["event_type"], row["status"], row["attempts"])
    return (*names, answer, moment(row["last_at"]), moment(row["next_at"]), row["job_id"])
