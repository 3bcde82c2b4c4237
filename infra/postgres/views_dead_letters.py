"""Dead letters as they are shown: of all four kinds in one list, and one with its bytes and every error."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, may_reveal, require_right
from signoff.domain.dead_letters import LetterId, LetterKind
from signoff.domain.errors import DeadLetterNotFound
from signoff.domain.filters import ANY_AGE, Age
from signoff.domain.hiding import masked
from signoff.infra.postgres.views import Page, Query, iso, split_page

# Each with the time since when it is dead. That of a run and of an effect its history tells.
MESSAGES = """SELECT 'message' AS kind, position::text AS key, received_at AS created_at, stream AS about,
    NULL::text AS agent, NULL::text AS tool, NULL::uuid AS job_id, NULL::integer AS attempts,
    'unreadable' AS error_code, error AS error_message, settlement, settled_by, settled_at
FROM signoff.poison_messages"""
EFFECTS = """SELECT 'effect', e.operation_id, coalesce((SELECT max(h.at) FROM signoff.effect_events h
        WHERE h.operation_id = e.operation_id AND h.to_status = 'dead'), e.created_at),
    e.tool, e.agent, e.tool, e.job_id, e.attempts, e.error_code, e.error_message, NULL, NULL, NULL::timestamptz
FROM signoff.effects e WHERE e.status = 'dead'"""
RUNS = """SELECT 'run', j.id::text, coalesce((SELECT max(a.at) FROM signoff.audit a
        WHERE a.job_id = j.id AND a.act = 'job.held'), j.created_at),
    j.thread_id, j.agent, NULL, j.id, j.tries, j.error_code, j.error_message, NULL, NULL, NULL::timestamptz
FROM signoff.jobs j WHERE j.status = 'awaiting_operator' AND j.error_code IS DISTINCT FROM 'effect_held'"""
WEBHOOKS = """SELECT 'webhook', s.id::text, coalesce(s.last_at, s.created_at), n.name || ': ' || s.event_type, NULL,
    NULL, s.job_id, s.attempts, 'undelivered', coalesce(s.last_error, s.last_status::text),
    CASE s.status WHEN 'discarded' THEN 'discarded' END, NULL, NULL::timestamptz
FROM signoff.sendings s JOIN signoff.subscriptions n ON n.id = s.subscription_id"""

OPEN = {
    LetterKind.message: f"{MESSAGES} WHERE settlement IS NULL",
    LetterKind.effect: EFFECTS,
    LetterKind.run: RUNS,
    LetterKind.webhook: f"{WEBHOOKS} WHERE s.status = 'dead'",
}
ONE = {
    LetterKind.message: f"{MESSAGES} WHERE position = %s::bigint",
    LetterKind.effect: f"{EFFECTS} AND e.operation_id = %s",
    LetterKind.run: f"{RUNS} AND j.id = %s::uuid",
    LetterKind.webhook: f"{WEBHOOKS} WHERE s.status IN ('dead', 'discarded') AND s.id = %s::uuid",
}
# Kind by kind the columns of the first.
_COLUMNS = """(kind, key, created_at, about, agent, tool, job_id, attempts, error_code, error_message, settlement,
    settled_by, settled_at)"""

BODY = {
    LetterKind.message: "SELECT body FROM signoff.poison_messages WHERE position = %s::bigint",
    LetterKind.effect: "SELECT args, hidden FROM signoff.effects WHERE operation_id = %s",
    LetterKind.run: "SELECT input AS body FROM signoff.jobs WHERE id = %s::uuid",
    LetterKind.webhook: "SELECT body FROM signoff.sendings WHERE id = %s::uuid",
}
# Oldest first. Of a sending only the last answer is kept.
ERRORS = {
    LetterKind.message: "SELECT received_at AS at, NULL AS who, error AS text FROM signoff.poison_messages"
    " WHERE position = %s::bigint",
    LetterKind.effect: """SELECT * FROM (
            SELECT ended_at AS at, worker AS who, 'try ' || number || ': ' || outcome || coalesce(': ' || message, '')
                AS text FROM signoff.attempts WHERE operation_id = %(key)s AND ended_at IS NOT NULL
            UNION ALL SELECT at, actor, from_status || ' to ' || to_status || coalesce(': ' || nullif(reason, ''), '')
                FROM signoff.effect_events WHERE operation_id = %(key)s) AS found ORDER BY at""",
    LetterKind.run: """SELECT * FROM (
            SELECT at, actor AS who, concat_ws(': ', data ->> 'code', data ->> 'message') AS text FROM signoff.events
                WHERE job_id = %(key)s::uuid AND type IN ('signoff.job.held.v1', 'signoff.job.failed.v1')
            UNION ALL SELECT a.at, a.actor, a.body ->> 'error' FROM signoff.audit a
                WHERE a.job_id = %(key)s::uuid AND a.act IN ('job.held', 'job.failed') AND NOT EXISTS (
                    SELECT 1 FROM signoff.events v WHERE v.job_id = a.job_id AND v.tx = a.tx)) AS found
        ORDER BY at""",
    LetterKind.webhook: "SELECT last_at AS at, NULL AS who, 'try ' || attempts || ': ' ||"
    " coalesce(last_error, last_status::text, 'no answer') AS text FROM signoff.sendings WHERE id = %s::uuid",
}


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters; None and nothing stand for any."""

    kind: Sequence[LetterKind] = ()
    agent: str | None = None
    tool: str | None = None
    error: str | None = None
    age: Age = ANY_AGE

    def apply(self, query: Query) -> None:
        """Raises InvalidRequest."""
        query.add_equal(l__agent=self.agent, l__tool=self.tool, l__error_code=self.error)
        query.add_age("l.created_at", self.age)


async def list_dead_letters(
    conn: AsyncConnection[DictRow], wanted: LetterFilter, who: Principal, page: Page | None = None
) -> dict[str, Any]:
    """{"dead_letters", "next"}: those that nobody has settled, newest first. Raises RightMissing, InvalidRequest."""
    require_right(who, Right.operate)
    page = page or Page()
    query = Query()
    wanted.apply(query)
    query.add_page(page, "l.created_at", "(l.kind || ':' || l.key)")
    kinds = " UNION ALL ".join(OPEN[kind] for kind in wanted.kind or LetterKind)
    sql = f"""SELECT l.*, l.kind || ':' || l.key AS id FROM ({kinds}) AS l {_COLUMNS}
        WHERE {query.where} ORDER BY l.created_at DESC, l.kind || ':' || l.key DESC LIMIT %(rows)s"""
    rows = await (await conn.execute(sql, query.parameters)).fetchall()
    kept, after = split_page(rows, page, "id")
    return {"dead_letters": [_brief(row) for row in kept], "next": after}


async def count_dead_letters(conn: AsyncConnection[DictRow]) -> dict[str, dict[str, Any]]:
    """For each kind how many there are, and since when the oldest is one."""
    counts = {}
    for kind, sql in OPEN.items():
        counting = f"SELECT count(*) AS count, min(created_at) AS oldest_at FROM ({sql}) AS l {_COLUMNS}"
        row = await (await conn.execute(counting)).fetchone()
        assert row is not None
        counts[str(kind)] = {"count": row["count"], "oldest_at": iso(row["oldest_at"])}
    return counts


async def show_dead_letter(conn: AsyncConnection[DictRow], letter: LetterId, who: Principal) -> dict[str, Any]:
    """One with its original bytes and every error, oldest first. Raises RightMissing, DeadLetterNotFound.

    The bytes of an effect are its arguments, and what a rule hides of them is masked unless `who` may reveal it.
    """
    require_right(who, Right.operate)
    sql = f"SELECT l.*, l.kind || ':' || l.key AS id FROM ({ONE[letter.kind]}) AS l {_COLUMNS}"
    row = await (await conn.execute(sql, (letter.key,))).fetchone()
    if row is None:
        raise DeadLetterNotFound(f"there is no dead letter {letter}: it may have been settled")
    errors = await (await conn.execute(*_keyed(ERRORS[letter.kind], letter.key))).fetchall()
    body = await _body(conn, letter, who)
    return {
        **_brief(row),
        "body": None if body is None else base64.b64encode(body).decode(),
        "errors": [{"at": iso(error["at"]), "who": error["who"], "text": error["text"]} for error in errors],
    }


async def is_dead_letter(conn: AsyncConnection[DictRow], letter: LetterId) -> bool:
    """True while it is one that can be shown."""
    found = f"SELECT EXISTS ({ONE[letter.kind]}) AS found"
    row = await (await conn.execute(found, (letter.key,))).fetchone()
    return row is not None and bool(row["found"])


def _keyed(sql: str, key: str) -> tuple[str, Any]:
    return sql, {"key": key} if "%(key)s" in sql else (key,)


async def _body(conn: AsyncConnection[DictRow], letter: LetterId, who: Principal) -> bytes | None:
    row = await (await conn.execute(BODY[letter.kind], (letter.key,))).fetchone()
    assert row is not None
    if letter.kind is LetterKind.effect:
        return _arguments(row, who)
    body: bytes | str = row["body"]
    return body.encode() if isinstance(body, str) else body


def _arguments(row: DictRow, who: Principal) -> bytes | None:
    args: Mapping[str, Any] | None = row["args"]
    if args is None:
        return None
    shown = args if may_reveal(who) else masked(args, row["hidden"] or ())
    return json.dumps(shown, ensure_ascii=False).encode()


def _brief(row: DictRow) -> dict[str, Any]:
    return {
        "id": row["id"],
        "kind": row["kind"],
        "since": iso(row["created_at"]),
        **{name: row[name] for name in ("about", "agent", "tool")},
        "job_id": None if row["job_id"] is None else str(row["job_id"]),
        "attempts": row["attempts"],
        "error": {"code": row["error_code"], "message": row["error_message"]},
        "settlement": row["settlement"],
        "settled_by": row["settled_by"],
        "settled_at": iso(row["settled_at"]),
    }
