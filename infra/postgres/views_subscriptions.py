"""Subscriptions and their sendings as they are shown to operators: without secrets, and without bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.filters import ANY_AGE, Age
from signoff.domain.sendings import SendingStatus
from signoff.infra.postgres.subscriptions import SubscriptionTable
from signoff.infra.postgres.views import Page, Query, iso, split_page

COLUMNS = """n.id, n.name, n.kind, n.target, n.event_types, n.filter, n.template, n.allow_private, n.created_by,
    n.created_at, n.disabled_at, n.disabled_by, n.disabled_reason,
    n.cursor_tx::text || '-' || n.cursor_position AS cursor,
    (SELECT count(*) FROM signoff.sendings s WHERE s.subscription_id = n.id AND s.status = 'pending') AS pending,
    (SELECT count(*) FROM signoff.sendings s WHERE s.subscription_id = n.id AND s.status = 'dead') AS dead"""
SECRETS = """
SELECT created_at, ends_at FROM signoff.subscription_secrets
WHERE subscription_id = %s AND (ends_at IS NULL OR ends_at > clock_timestamp()) ORDER BY position DESC
"""
SENDING = """s.id, n.name AS subscription, s.event_id, s.event_cursor, s.event_type, s.job_id, s.sequence, s.status,
    s.attempts, s.created_at, CASE WHEN s.status = 'pending' THEN s.next_at END AS next_at, s.last_at, s.last_status,
    s.last_error, s.sent_at"""
SENDING_NAMES = (
    "subscription",
    "event_cursor",
    "event_type",
    "sequence",
    "status",
    "attempts",
    "last_status",
    "last_error",
)
SENDING_TIMES = ("created_at", "next_at", "last_at", "sent_at")


@dataclass(frozen=True, slots=True)
class SendingFilter:
    """Which sendings; None and nothing stand for any."""

    status: Sequence[SendingStatus] = ()
    job_id: UUID | None = None
    event_id: UUID | None = None
    event_type: str | None = None
    age: Age = ANY_AGE

    def apply(self, query: Query) -> None:
        """Raises InvalidRequest."""
        query.add_words("s.status", self.status)
        query.add_equal(s__job_id=self.job_id, s__event_id=self.event_id, s__event_type=self.event_type)
        query.add_age("s.created_at", self.age)


async def list_subscriptions(
    conn: AsyncConnection[DictRow], who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"subscriptions", "next"}: newest first. Raises RightMissing, InvalidRequest."""
    require_right(who, Right.operate)
    page = page or Page()
    query = Query()
    query.add_page(page, "n.created_at", "n.id", UUID)
    rows = await (
        await conn.execute(
            f"SELECT {COLUMNS} FROM signoff.subscriptions n WHERE {query.where}"
            " ORDER BY n.created_at DESC, n.id DESC LIMIT %(rows)s",
            query.parameters,
        )
    ).fetchall()
    kept, after = split_page(rows, page, "id")
    return {"subscriptions": [_view(row) for row in kept], "next": after}


async def show_subscription(conn: AsyncConnection[DictRow], reference: str, who: Principal) -> dict[str, Any]:
    """One with the times of the secrets that are in force. Raises RightMissing, SubscriptionNotFound."""
    require_right(who, Right.operate)
    id_ = (await SubscriptionTable(conn).find(reference)).id
    row = await (await conn.execute(f"SELECT {COLUMNS} FROM signoff.subscriptions n WHERE id = %s", (id_,))).fetchone()
    assert row is not None
    secrets = await (await conn.execute(SECRETS, (id_,))).fetchall()
    times = [{name: iso(secret[name]) for name in ("created_at", "ends_at")} for secret in secrets]
    return {**_view(row), "secrets": times}


async def list_sendings(
    conn: AsyncConnection[DictRow],
    reference: str | None,
    wanted: SendingFilter,
    who: Principal,
    page: Page | None = None,
) -> dict[str, Any]:
    """{"sendings", "next"} of one subscription, or of all: newest first. Raises RightMissing, SubscriptionNotFound."""
    require_right(who, Right.operate)
    page = page or Page()
    query = Query()
    if reference is not None:
        query.add_equal(s__subscription_id=(await SubscriptionTable(conn).find(reference)).id)
    wanted.apply(query)
    query.add_page(page, "s.created_at", "s.id", UUID)
    sql = f"""SELECT {SENDING} FROM signoff.sendings s JOIN signoff.subscriptions n ON n.id = s.subscription_id
        WHERE {query.where} ORDER BY s.created_at DESC, s.id DESC LIMIT %(rows)s"""
    rows = await (await conn.execute(sql, query.parameters)).fetchall()
    kept, after = split_page(rows, page, "id")
    return {"sendings": [_sending(row) for row in kept], "next": after}


def _view(row: DictRow) -> dict[str, Any]:
    times = {name: iso(row[name]) for name in ("created_at", "disabled_at")}
    return {**row, "id": str(row["id"]), "target": _shown_target(row["kind"], row["target"]), **times}


def _shown_target(kind: str, target: str) -> str:
    """The path of a Slack webhook is its secret, and a query may hold one."""
    if kind == "mail":
        return target
    parts = urlsplit(target)
    path = "/…" if kind == "slack" else parts.path
    return f"{parts.scheme}://{parts.netloc}{path}{'?…' if parts.query else ''}"


def _sending(row: DictRow) -> dict[str, Any]:
    ids = {"sending_id": str(row["id"]), "event_id": str(row["event_id"])}
    job = None if row["job_id"] is None else str(row["job_id"])
    names = (
        "subscription",
        "event_cursor",
        "event_type",
        "sequence",
        "status",
        "attempts",
        "last_status",
        "last_error",
    )
    return {
        **ids,
        "job_id": job,
        **{name: row[name] for name in names},
        **{name: iso(row[name]) for name in SENDING_TIMES},
    }
