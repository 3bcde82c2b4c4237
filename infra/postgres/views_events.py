"""Events as they are shown: for who missed some."""

from __future__ import annotations

import re
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import InvalidRequest
from signoff.domain.events import to_cloudevent
from signoff.infra.postgres.events import EventTable

START = "0-0"
MOST_EVENTS = 1000
DEFAULT_EVENTS = 100

_CURSOR = re.compile(r"([0-9]{1,20})-([0-9]{1,19})", re.ASCII)
_LARGEST_TX, _LARGEST_POSITION = 2**64 - 1, 2**63 - 1


async def list_events(
    conn: AsyncConnection[DictRow], after: str, who: Principal, limit: int = DEFAULT_EVENTS
) -> dict[str, Any]:
    """{"events", "next"}: CloudEvents behind the cursor `after`, in an order that later commits can't change.

    `next` is where to go on, also when there is nothing new. Raises RightMissing, InvalidRequest.
    """
    require_right(who, Right.operate)
    if not 1 <= limit <= MOST_EVENTS:
        raise InvalidRequest(f"'limit' must be from 1 to {MOST_EVENTS}", field="limit")
    events = await EventTable(conn).after(*read_cursor(after), limit)
    return {"events": [to_cloudevent(event) for event in events], "next": events[-1].cursor if events else after}


def read_cursor(cursor: str) -> tuple[int, int]:
    """(transaction, position). Raises InvalidRequest."""
    found = _CURSOR.fullmatch(cursor)
    tx, position = (int(found[1]), int(found[2])) if found else (_LARGEST_TX + 1, 0)
    if tx > _LARGEST_TX or position > _LARGEST_POSITION:
        raise InvalidRequest(f"'after' must be {START!r}, or the 'next' of an earlier answer", field="after")
    return tx, position
