"""Each forbidden act through every door: refused with its own code, and nothing is changed by it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from signoff.domain.authority import Grant, Principal, PrincipalKind, Right
from signoff.domain.cancelling import cancel_job
from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.grants import Given
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.infra.hints import NoHints
from signoff.infra.postgres.grants import GrantTable
from signoff.infra.tokens import new_token
from tests.support.all_doors import TAKEN, Door, all_doors
from tests.support.api import Api, dump, hand_out_tokens
from tests.support.parked import OPERATOR, REVIEWER, SECOND_REVIEWER, parked, refund
from tests.support.streams import World, open_world

pytestmark = pytest.mark.anyio

APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}
REVIEWING = frozenset({Right.review})
SUBMITTER = Principal("una", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.submit, Right.review}))
SEER = Principal("sue", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.see}))
LIMITED = Principal("lena", PrincipalKind.person, frozenset({"finance"}), REVIEWING)
GONE = Principal("gail", PrincipalKind.person, frozenset({"finance"}), REVIEWING)
DELEGATE = Principal("dan", PrincipalKind.person, frozenset(), REVIEWING)
SECOND_DELEGATE = Principal("deb", PrincipalKind.person, frozenset(), REVIEWING)
DIRECTOR = Principal("dora", PrincipalKind.person, frozenset({"directors"}), REVIEWING)
OTHERS = (SUBMITTER, SEER, LIMITED, GONE, DELEGATE, SECOND_DELEGATE, DIRECTOR)
TABLES = ("jobs", "reviews", "items", "decisions", "revisions", "effects", "deliveries")


@dataclass
class Desk:
    """A store with everybody in it, and every door to it."""

    world: World
    doors: dict[str, Door]
    database_url: str

    async def review(self, *calls: Any, **fields: Any) -> UUID:
        return (await parked(self.world.store, *calls, **fields)).review_id

    async def decided(self, review_id: UUID, raw: dict[str, Any], who: Principal = REVIEWER) -> None:
        answers = parse_answers({"decisions": [raw]})
        await decide_review(
            self.world.store, NoHints(), review_id, answers, who, door="test", environment="development"
        )

    async def execute(self, statement: str, *parameters: Any) -> None:
        async with self.world.store.connection() as conn:
            await conn.execute(statement, parameters)

    def state(self) -> dict[str, list[str]]:
        rows = dump(self.database_url)
        return {name: rows[name] for name in TABLES}


@pytest.fixture
async def desk(database_url: str, redis_url: str) -> AsyncIterator[Desk]:
    async with open_world(database_url, redis_url) as world:
        api = Api(world.services, {**await hand_out_tokens(world.services), **await _others(world)})
        yield Desk(world, all_doors(api, world, database_url), database_url)


async def _others(world: World) -> dict[str, str]:
    tokens = {}
    async with world.store.begin() as tx:
        for who in OTHERS:
            await tx.principals.create(who)
            tokens[who.name], hashed = new_token()
            await tx.principals.add_token(uuid4(), who.name, hashed)
        now = await tx.now()
        day = now + timedelta(days=1)
        table = GrantTable(tx.conn)

        def given(person: str, delegator: str | None, condition: str | None = None) -> Given:
            return Given(Grant(uuid4(), ("refund",), condition, day), person, delegator, "test", now)

        await table.add(given("lena", None, "args.amount <= 10"))
        await table.set_limited("lena", True, "test")
        await table.add(given("dan", "gail"))
        await table.add(given("deb", "dan"))
        await tx.principals.revoke("gail")
    return tokens


# --- what is set up before, by the act's name ------------------------------------------------------------------


async def a_review(desk: Desk) -> UUID:
    return await desk.review()


async def of_a_reviewers_own_job(desk: Desk) -> UUID:
    return await desk.review(who=SUBMITTER)


async def of_two_items(desk: Desk) -> UUID:
    return await desk.review(refund(30), refund(40))


async def expired(desk: Desk) -> UUID:
    review_id = await desk.review(refund(deadline_seconds=60))
    await desk.execute("UPDATE signoff.items SET deadline_at = clock_timestamp() WHERE review_id = %s", review_id)
    return review_id


async def cancelled(desk: Desk) -> UUID:
    job = await parked(desk.world.store)
    await cancel_job(desk.world.store, NoHints(), job.job_id, OPERATOR, "a test")
    return job.review_id


async def decided(desk: Desk) -> UUID:
    review_id = await desk.review()
    await desk.decided(review_id, REJECT, SECOND_REVIEWER)
    return review_id


async def half_approved(desk: Desk) -> UUID:
    review_id = await desk.review(refund(terms={"approvals": 2}))
    await desk.decided(review_id, APPROVE)
    return review_id


async def amended(desk: Desk) -> UUID:
    review_id = await desk.review()
    await desk.decided(review_id, edit(600))
    return review_id


async def claimed(desk: Desk) -> UUID:
    review_id = await desk.review()
    claim = "UPDATE signoff.reviews SET claimed_by = 'ravi', claimed_until = clock_timestamp() + interval '1 hour'"
    await desk.execute(f"{claim} WHERE id = %s", review_id)
    return review_id


async def assigned(desk: Desk) -> UUID:
    review_id = await desk.review()
    await desk.execute("UPDATE signoff.items SET assigned_to = '{@ravi}' WHERE review_id = %s", review_id)
    return review_id


async def unreadable(desk: Desk) -> UUID:
    return await desk.review(refund(args=None, unreadable_args="{amo", decisions=["reject", "respond"]))


async def escalated(desk: Desk) -> UUID:
    review_id = await desk.review()
    up = "UPDATE signoff.items SET escalated_to = '{directors}', replaced = true"
    await desk.execute(f"{up} WHERE review_id = %s", review_id)
    return review_id


def edit(amount: Any, name: str = "refund", **more: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": {"order": "A-1", "amount": amount}}, **more}


# --- the acts ------------------------------------------------------------------------------------------------------

SetUp = Callable[[Desk], Awaitable[UUID]]
# Over HTTP and on the command line who may not even see a review does not learn that it is there, and a token of
# somebody revoked opens nothing.
HIDDEN = {"not_a_reviewer", "review_not_found", "token_invalid"}
ACTS: list[tuple[SetUp, str, list[dict[str, Any]], set[str]]] = [
    # By somebody who may not.
    (a_review, "sam", [APPROVE], HIDDEN),
    (a_review, "shop", [APPROVE], HIDDEN),
    (a_review, "olga", [APPROVE], HIDDEN),
    (a_review, "sue", [APPROVE], HIDDEN),
    (a_review, "gail", [APPROVE], HIDDEN),
    (a_review, "dan", [APPROVE], HIDDEN),
    (a_review, "deb", [APPROVE], HIDDEN),
    (a_review, "lena", [APPROVE], {"beyond_authority"}),
    (a_review, "lena", [REJECT], {"beyond_authority"}),
    (of_a_reviewers_own_job, "una", [APPROVE], {"submitter_may_not_decide"}),
    (of_a_reviewers_own_job, "una", [edit(20)], {"submitter_may_not_decide"}),
    (claimed, "rita", [APPROVE], {"review_claimed"}),
    (assigned, "rita", [APPROVE], HIDDEN),
    (escalated, "rita", [APPROVE], HIDDEN),
    # At the wrong time.
    (expired, "rita", [APPROVE], {"review_expired"}),
    (cancelled, "rita", [APPROVE], {"review_cancelled"}),
    (decided, "rita", [APPROVE], {"already_decided"}),
    (decided, "ravi", [APPROVE], {"already_decided"}),
    (half_approved, "rita", [REJECT], {"already_decided"}),
    (half_approved, "rita", [edit(20)], {"already_decided"}),
    (amended, "dora", [APPROVE], {"stale_decision"}),
    (amended, "dora", [{**APPROVE, "revision": 1}], {"stale_decision"}),
    (amended, "dora", [{**APPROVE, "digest": "0" * 64}], {"stale_decision"}),
    (amended, "dora", [{**APPROVE, "revision": 3}], {"early_decision"}),
    (amended, "rita", [{**APPROVE, "revision": 2}], HIDDEN),
    # What is not open to be decided.
    (unreadable, "rita", [APPROVE], {"decision_not_allowed"}),
    (a_review, "rita", [edit(20, "send_email")], {"edit_changes_tool"}),
    (a_review, "rita", [edit("many")], {"edit_outside_schema"}),
    (a_review, "rita", [edit(1001)], {"edit_denied"}),
    (amended, "dora", [edit(1001, revision=2)], {"edit_denied"}),
    # What is no decision.
    (a_review, "rita", [APPROVE, APPROVE], {"wrong_decision_count"}),
    (of_two_items, "rita", [APPROVE], {"wrong_decision_count"}),
    (a_review, "rita", [{**APPROVE, "item_id": str(UUID(int=7))}], {"unknown_item"}),
    (a_review, "rita", [{**APPROVE, "tool_call_id": "x" * MAX_NAME_CHARACTERS}], {"unknown_item"}),
    (a_review, "rita", [], {"invalid_request"}),
    (a_review, "rita", [{"type": "accept"}], {"invalid_request"}),
    (a_review, "rita", [{"type": "edit", "editedAction": {"name": "refund", "args": {}}}], {"invalid_request"}),
    (a_review, "rita", [{"type": "edit"}], {"edit_incomplete"}),
    (a_review, "rita", [{"type": "respond"}], {"message_required"}),
    (a_review, "rita", [{**APPROVE, "revision": True}], {"invalid_request"}),
]


def _name(act: tuple[SetUp, str, list[dict[str, Any]], set[str]]) -> str:
    words = ", ".join(str(raw.get("type")) for raw in act[2]) or "nothing"
    return f"{act[0].__name__}-{act[1]}-{words}"


@pytest.mark.parametrize(("set_up", "who", "decisions", "codes"), ACTS, ids=map(_name, ACTS))
async def test_a_forbidden_act_is_refused_at_every_door(
    desk: Desk, set_up: SetUp, who: str, decisions: list[dict[str, Any]], codes: set[str]
) -> None:
    review_id = await set_up(desk)
    before = desk.state()
    said = {name: await door.decide(review_id, who, decisions) for name, door in desk.doors.items()}
    assert {name: code for name, code in said.items() if code not in codes} == {}
    assert desk.state() == before


@pytest.mark.parametrize("door", ["http", "webhook", "stream", "celery", "command line"])
async def test_what_is_allowed_passes_each_door(desk: Desk, door: str) -> None:
    review_id = await desk.review()
    assert await desk.doors[door].decide(review_id, "rita", [APPROVE]) == TAKEN
    two = await desk.review(refund(terms={"approvals": 2}))
    assert await desk.doors[door].decide(two, "rita", [APPROVE]) == TAKEN
    assert await desk.doors[door].decide(two, "ravi", [APPROVE]) == TAKEN
    [status] = await desk.world.rows("SELECT status FROM signoff.reviews WHERE id = %s", two)
    assert status == {"status": "decided"}
