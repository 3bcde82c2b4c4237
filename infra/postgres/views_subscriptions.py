"""Subscriptions and their sendings as they are shown to operators: without secrets, and without bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
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
SENDING = """id, event_id, event_cursor, event_type, job_id, sequence, status, attempts, created_at,
    CASE WHEN status = 'pending' THEN next_at END AS next_at, last_at, last_status, last_error, sent_at"""
SENDING_TIMES = ("created_at", "next_at", "last_at", "sent_at")


@dataclass(frozen=True, slots=True)
class SendingFilter:
    """Which sendings; None stands for any."""

    status: SendingStatus | None = None
    job_id: UUID | None = None
    event_id: UUID | None = None


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
    conn: AsyncConnection[DictRow], reference: str, wanted: SendingFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"sendings", "next"} of one subscription: newest first. Raises RightMissing, SubscriptionNotFound."""
    require_right(who, Right.operate)
    page = page or Page()
    id_ = (await SubscriptionTable(conn).find(reference)).id
    query = Query()
    query.add_equal(subscription_id=id_, status=wanted.status, job_id=wanted.job_id, event_id=wanted.event_id)
    query.add_page(page, "created_at", "id", UUID)
    rows = await (
        await conn.execute(
            f"SELECT {SENDING} FROM signoff.sendings WHERE {query.where}"
            " ORDER BY created_at DESC, id DESC LIMIT %(rows)s",
            query.parameters,
        )
    ).fetchall()
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
    names = ("event_cursor", "event_type", "sequence", "status", "attempts", "last_status", "last_error")
    return {
        **ids,
        "job_id": job,
        **{name: row[name] for name in names},
        **{name: iso(row[name]) for name in SENDING_TIMES},
    }
