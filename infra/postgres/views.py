"""Read models: what HTTP and the command line show, as plain dicts ready for JSON, for whoever looks.

Each takes a connection, what is asked for, and who asks: rows that they may not read are not there for them.
Lists are pages in keyset order, newest first; `next` is the cursor of the page after, None on the last one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from signoff.domain.authority import Principal, Right, seen_as
from signoff.domain.canonical import scrub
from signoff.domain.errors import InvalidRequest
from signoff.domain.filters import Age

MOST_ROWS = 200
DEFAULT_ROWS = 50


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list: at most `limit` rows, behind `cursor`."""

    limit: int = DEFAULT_ROWS
    cursor: str | None = None


@dataclass(slots=True)
class Query:
    """The conditions and parameters of one SELECT, added one by one, so that the planner sees no idle ones."""

    conditions: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    def add(self, condition: str, **parameters: Any) -> None:
        self.conditions.append(condition)
        self.parameters.update(parameters)

    def add_equal(self, **wanted: Any) -> None:
        """Column = value, for each value that was asked for; `__` in a name stands for the full stop.

        Raises InvalidRequest for text that no column can hold.
        """
        for name, value in wanted.items():
            if isinstance(value, str) and scrub(value) != value:
                raise InvalidRequest(f"'{name.rpartition('__')[2]}' holds a NUL or a lone surrogate")
            if value is not None:
                self.add(f"{name.replace('__', '.')} = %({name})s", **{name: value})

    def add_words(self, column: str, words: Sequence[StrEnum]) -> None:
        """One of these words of ours; any without one. Written out, so that partial indexes are found."""
        if words:
            self.add(f"{column} IN ({', '.join(repr(str(word)) for word in words)})")

    def add_age(self, time: str, age: Age) -> None:
        if age.older_than is not None:
            self.add(f"{time} <= now() - %(older_than)s", older_than=age.older_than)
        if age.newer_than is not None:
            self.add(f"{time} > now() - %(newer_than)s", newer_than=age.newer_than)

    def add_labels(self, column: str, labels: Mapping[str, str]) -> None:
        """All of these labels. Raises InvalidRequest for text that no column can hold."""
        if any(scrub(text) != text for label in labels.items() for text in label):
            raise InvalidRequest("a label holds a NUL or a lone surrogate", field="label")
        if labels:
            self.add(f"{column} @> %(labels)s", labels=Jsonb(dict(labels)))

    def add_page(self, page: Page, time: str, key: str, read_key: Callable[[str], Any] = str) -> None:
        """One row more than asked for is read: it tells whether there is a page after.

        Raises InvalidRequest for a limit out of range, or a cursor that no list has given out.
        """
        if not 1 <= page.limit <= MOST_ROWS:
            raise InvalidRequest(f"'limit' must be from 1 to {MOST_ROWS}", field="limit")
        if page.cursor is not None:
            at, after = _read_cursor(page.cursor, read_key)
            self.add(f"({time}, {key}) < (%(cursor_at)s, %(cursor_key)s)", cursor_at=at, cursor_key=after)
        self.parameters["rows"] = page.limit + 1

    @property
    def where(self) -> str:
        return " AND ".join(self.conditions) or "true"


def may_read_jobs(query: Query, who: Principal) -> None:
    """`may_read_job` for rows of `signoff.jobs j`: who submitted it, who sees any of its reviews, operators."""
    if not operates(who):
        reviewed = "SELECT 1 FROM signoff.reviews m WHERE m.job_id = j.id AND m.reviewers && %(seen_as)s::text[]"
        query.add(f"(j.submitted_by = %(who)s OR EXISTS ({reviewed}))", who=_name(who), seen_as=seen_as(who))


def may_read_reviews(query: Query, who: Principal) -> None:
    """Rows of `signoff.reviews r` with `signoff.jobs j`: who sees it as a reviewer, who submitted it, operators."""
    if not operates(who):
        mine = "(j.submitted_by = %(who)s OR r.reviewers && %(seen_as)s::text[])"
        query.add(mine, who=_name(who), seen_as=seen_as(who))


def operates(who: Principal) -> bool:
    return Right.operate in who.rights and not who.revoked


def storable(name: str, value: str) -> str:
    """The value. Raises InvalidRequest for text that no column can hold."""
    if scrub(value) != value:
        raise InvalidRequest(f"'{name}' holds a NUL or a lone surrogate", field=name)
    return value


def split_page(rows: Sequence[DictRow], page: Page, key: str) -> tuple[Sequence[DictRow], str | None]:
    """The page's own rows, and the cursor of the page after."""
    if len(rows) <= page.limit:
        return rows, None
    kept = rows[: page.limit]
    return kept, _cursor(kept[-1]["created_at"], str(kept[-1][key]))


def iso(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def _cursor(at: datetime, key: str) -> str:
    return base64.urlsafe_b64encode(f"{at.astimezone(UTC).isoformat()} {key}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str, read_key: Callable[[str], Any]) -> tuple[datetime, Any]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        at, _, key = text.partition(" ")
        time = datetime.fromisoformat(at)
        if time.tzinfo is None or not key or scrub(key) != key:
            raise ValueError(cursor)
        return time, read_key(key)
    except ValueError:
        raise InvalidRequest("'cursor' is not one that a list of this kind gave out", field="cursor") from None


def _name(who: Principal) -> str | None:
    return None if who.revoked else who.name
