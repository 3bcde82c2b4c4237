"""Ladders, on Postgres: which rung is climbed when, and what an escalation does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.deciding import expire_review
from signoff.domain.errors import NotAReviewer
from signoff.domain.laddering import climb
from signoff.domain.ladders import Rung
from signoff.domain.reassigning import reassign
from signoff.domain.review_acts import claim
from signoff.domain.reviews import Item
from signoff.infra.hints import NoHints
from signoff.infra.postgres.ladders import due_ladders
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_reviews import list_reviews, show_review
from signoff.workers.climbing import ClimbLadders
from tests.support.api import open_store
from tests.support.parked import OPERATOR, REVIEWER, SECOND_REVIEWER, STRANGER, parked, refund
from tests.support.reviewing import acts, change, decide, look, rows

pytestmark = pytest.mark.anyio

DORA = replace(REVIEWER, name="dora", groups=frozenset({"directors"}))
REMIND = Rung(60)
ASK_TOO = Rung(120, ("directors",))
INSTEAD = Rung(180, ("legal",), replace=True)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=4) as services:
        async with services.store.begin() as tx:
            await tx.principals.create(DORA)
        yield services.store


def climbing(*rungs: Rung, **changes: Any) -> dict[str, Any]:
    return refund(terms={"ladder": [rung.to_dict() for rung in rungs]}, **changes)


async def pass_time(store: PostgresStore, review_id: UUID, seconds: float) -> None:
    """Everything about the review was so much earlier."""
    earlier = "- make_interval(secs => %s)"
    await change(
        store,
        f"UPDATE signoff.reviews SET created_at = created_at {earlier}, deadline_at = deadline_at {earlier}"
        " WHERE id = %s",
        *(seconds, seconds, review_id),
    )
    await change(
        store,
        f"UPDATE signoff.items SET next_rung_at = next_rung_at {earlier}, deadline_at = deadline_at {earlier}"
        " WHERE review_id = %s",
        *(seconds, seconds, review_id),
    )


async def only_item(store: PostgresStore, review_id: UUID) -> Item:
    (item,) = (await look(store, review_id))[0].items
    return item


async def events(store: PostgresStore, review_id: UUID) -> list[tuple[str, dict[str, Any]]]:
    sql = "SELECT type, data FROM signoff.events WHERE subject = %s ORDER BY sequence"
    found = [(row["type"].split(".")[2], row["data"]) for row in await rows(store, sql, f"reviews/{review_id}")]
    return [(kind, data) for kind, data in found if kind != "requested"]


async def test_each_rung_in_its_time(store: PostgresStore) -> None:
    review_id = (await parked(store, climbing(REMIND, ASK_TOO, INSTEAD))).review_id
    dispatcher = ClimbLadders(store)
    reached = []
    for _ in range(4):
        await dispatcher.step()
        item = await only_item(store, review_id)
        reached.append((item.rung, item.may_decide, item.next_rung_at is None))
        await pass_time(store, review_id, 60)
    assert reached == [
        (0, ("finance",), False),
        (1, ("finance",), False),
        (2, ("finance", "directors"), False),
        (3, ("legal",), True),
    ]
    told = await events(store, review_id)
    assert [kind for kind, _ in told] == ["reminded", "escalated", "escalated"]
    assert [data["reviewers"] for _, data in told] == [["finance"], ["directors"], ["legal"]]
    assert [data.get("replaces") for _, data in told] == [None, False, True]
    assert await acts(store, review_id) == [("reminded", "signoff"), ("escalated", "signoff"), ("escalated", "signoff")]
    with pytest.raises(NotAReviewer):
        await decide(store, review_id)
    assert (await decide(store, review_id, who=STRANGER)).status == "decided"


async def test_missed_rungs_are_climbed_in_order_and_once(store: PostgresStore) -> None:
    calm = climbing(Rung(86_400), tool_call_id="calm")
    review_id = (await parked(store, climbing(REMIND, ASK_TOO), climbing(Rung(90)), calm)).review_id
    await pass_time(store, review_id, 1000)
    assert [await climb(store, review_id), await climb(store, review_id)] == [3, 0]
    told = await events(store, review_id)
    assert [(kind, data["rung"]) for kind, data in told] == [("reminded", 1), ("reminded", 1), ("escalated", 2)]
    assert (await look(store, review_id))[0].items[2].rung == 0


async def test_who_is_asked_now_sees_it_and_can_decide_at_once(store: PostgresStore) -> None:
    review_id = (await parked(store, climbing(ASK_TOO))).review_id
    await claim(store, review_id, REVIEWER, environment="test", seconds=9000)
    await reassign(store, review_id, OPERATOR, ["@ravi"], environment="test")
    await claim(store, review_id, SECOND_REVIEWER, environment="test", seconds=9000)
    await pass_time(store, review_id, 121)
    async with store.connection() as conn:
        assert (await list_reviews(conn, ReviewFilter(), DORA))["reviews"] == []
    await climb(store, review_id)
    async with store.connection() as conn:
        (mine,) = (await list_reviews(conn, ReviewFilter(mine=True), DORA))["reviews"]
        assert (await list_reviews(conn, ReviewFilter(mine=True), REVIEWER))["reviews"] == []
        shown = await show_review(conn, review_id, DORA)
    assert mine["items"][0]["assigned_to"] == ["@ravi", "directors"]
    assert mine["items"][0]["ladder"] == {"rung": 1, "rungs": 1, "next_at": None, "escalated_to": ["directors"]}
    assert [act["act"] for act in shown["acts"]] == ["claimed", "reassigned", "claimed", "escalated"]
    assert (await decide(store, review_id, who=DORA)).status == "decided"


async def test_no_rung_is_climbed_once_the_deadline_has_passed(store: PostgresStore) -> None:
    review_id = (await parked(store, climbing(REMIND, ASK_TOO, deadline_seconds=100))).review_id
    await pass_time(store, review_id, 1000)
    async with store.connection() as conn:
        assert await due_ladders(conn, 10) == []
    assert await climb(store, review_id) == 0
    assert await expire_review(store, NoHints(), review_id)
    assert await climb(store, review_id) == 0
    assert [kind for kind, _ in await events(store, review_id)] == ["expired"]


async def test_a_decided_item_is_left_alone(store: PostgresStore) -> None:
    first, second = climbing(REMIND, tool_call_id="first"), climbing(REMIND, tool_call_id="second")
    review_id = (await parked(store, first, second)).review_id
    await decide(store, review_id, {"type": "approve", "tool_call_id": "first"})
    await pass_time(store, review_id, 61)
    assert await climb(store, review_id) == 1
    await decide(store, review_id, {"type": "approve", "tool_call_id": "second"})
    await change(store, "UPDATE signoff.items SET next_rung_at = clock_timestamp(), rung = 0")
    assert await climb(store, review_id) == 0


async def test_a_deadline_that_escalates_asks_others_instead(store: PostgresStore) -> None:
    terms = {"at_deadline": "escalate", "escalate_to": ["directors"]}
    review_id = (await parked(store, refund(terms=terms, deadline_seconds=60))).review_id
    await pass_time(store, review_id, 61)
    assert not await expire_review(store, NoHints(), review_id)
    await ClimbLadders(store).step()
    with pytest.raises(NotAReviewer):
        await decide(store, review_id)
    assert (await decide(store, review_id, who=DORA)).status == "decided"
