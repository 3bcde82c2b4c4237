"""Undoing an effect and executing it again: asked for over HTTP, decided by another, sent by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from langchain_core.tools import BaseTool, tool

from signoff.domain.cancelling import cancel_job
from signoff.domain.jobs import JobStatus
from signoff.domain.policy import Rule, allow, deny, review
from signoff.infra.hints import NoHints
from signoff.workers import Refused, effect
from signoff.workers.declaring import Compensation
from tests.support.api import Api, open_api
from tests.support.models import calling
from tests.support.operators import hire
from tests.support.parked import PRODUCER
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

PAY = {"to": "ada", "amount": 30}
UNDO = Compensation("give_back", {"payment": "result.id", "amount": "args.amount", "to": "args.to"})
ASKED = [
    allow("pay", when="args.amount < 100", reviewers=["finance"], hide=["to"]),
    review("*", reviewers=["finance"]),
]


class Bank:
    """What was really done, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.closed = False

    @property
    def tools(self) -> list[BaseTool]:
        @effect("idempotent", compensate=UNDO)
        @tool
        async def pay(to: str, amount: int) -> str:
            """Pays."""
            self.done.append(("pay", amount))
            return json.dumps({"id": "p-1"})

        @effect("idempotent")
        @tool
        async def give_back(payment: str, to: str, amount: int) -> str:
            """Gives back."""
            if self.closed:
                raise Refused("closed")
            self.done.append((payment, amount))
            return "given back"

        return [pay, give_back]


class Desk:
    """The HTTP application and a worker over one store, with a payment that was made."""

    def __init__(self, api: Api, shop: Workshop, bank: Bank, job_id: UUID, operation: str) -> None:
        self.api, self.shop, self.bank, self.job_id, self.operation = api, shop, bank, job_id, operation

    async def ask(self, verb: str = "compensate", who: str = "olga", key: str | None = None, **body: Any) -> Any:
        headers = {} if key is None else {"Idempotency_Key": key}
        body = {"reason": "a mistake", **body}
        return await self.api.post(who, f"/v1/effects/{self.operation}/{verb}", body, **headers)

    async def decide(self, review_id: str, who: str = "rita", **decision: Any) -> httpx.Response:
        body = {"decisions": [{"type": "approve", **decision}]}
        return await self.api.post(who, f"/v1/reviews/{review_id}/decisions", body)

    async def done(self, asked: httpx.Response, **decision: Any) -> dict[str, Any]:
        """The effect that was asked for, once it was approved and a worker has had it."""
        assert asked.status_code == 201, asked.text
        answer = await self.decide(asked.json()["review_id"], **decision)
        assert answer.status_code == 200, answer.text
        operation = answer.json()["decisions"][0].get("operation_id") or asked.json()["operation_id"]
        await self.shop.alone.run(operation)
        shown: dict[str, Any] = (await self.api.get("olga", f"/v1/effects/{operation}")).json()
        return shown


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url, pool_size=10) as api:
        api.tokens = {**api.tokens, **await hire(api.store)}
        yield api


async def paid(api: Api, rules: list[Rule] = ASKED) -> Desk:
    bank = Bank()
    shop = Workshop(api.store, bank.tools, calling(("pay", PAY)), "Done.", rules=rules)
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    (effect,) = await shop.effects(job.id)
    assert (job.status, bank.done) == (JobStatus.succeeded, [("pay", 30)])
    return Desk(api, shop, bank, job.id, effect.operation_id)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def test_a_compensation_is_an_effect_of_its_own_with_a_review_of_its_own(api: Api) -> None:
    desk = await paid(api)
    events = len(await desk.shop.sql("SELECT 1 FROM signoff.events"))
    asked = await desk.ask()
    (item,) = asked.json()["review"]["items"]
    assert item["tool"] == "give_back"
    assert (item["args"]["payment"], item["args"]["amount"]) == ("p-1", 30)
    assert item["hidden"] == ["to"]  # as it was in the payment
    assert item["args"]["to"] != "ada"
    assert item["allowed_decisions"] == ["approve", "edit", "reject"]
    assert f"Undoes {desk.operation}" in item["description"]
    assert "olga asks for it: a mistake" in item["reason"]
    after = await desk.done(asked)
    assert (after["status"], after["alone"], after["tool"]) == ("succeeded", True, "give_back")
    assert after["origin"] == {"kind": "compensation", "operation_id": desk.operation}
    assert desk.bank.done == [("pay", 30), ("p-1", 30)]
    assert (await desk.shop.job(desk.job_id)).status is JobStatus.succeeded
    told = await desk.shop.sql("SELECT type FROM signoff.events ORDER BY position OFFSET %s", events)
    words = [row["type"].removeprefix("signoff.").removesuffix(".v1") for row in told]
    assert words[:2] == ["review.requested", "review.decided"]
    assert (await desk.ask("compensate")).json()["code"] == "effect_not_repeatable"


async def test_it_is_asked_for_once_also_by_many_at_once(api: Api) -> None:
    desk = await paid(api)
    answers = await asyncio.gather(*(desk.ask(key="k") for _ in range(3)), desk.ask(key="other", who="oscar"))
    assert [answer.status_code for answer in answers].count(409) in (1, 3)
    (count,) = await desk.shop.sql("SELECT count(*) FROM signoff.reviews")
    assert count["count"] == 1
    first = next(answer for answer in answers if answer.status_code == 201)
    await desk.decide(first.json()["review_id"], type="reject", message="no")
    assert (await desk.ask(key="anew")).status_code == 201


async def test_who_asks_does_not_decide(api: Api) -> None:
    desk = await paid(api)
    await desk.shop.sql(
        "UPDATE signoff.principals SET rights = '{operate,review}', groups = '{finance}' WHERE kind = 'person'"
    )
    asked = (await desk.ask(who="olga")).json()
    edit = {"type": "edit", "edited_action": {"name": "give_back", "args": {"payment": "p", "to": "a", "amount": 1}}}
    assert code(await desk.decide(asked["review_id"], "olga")) == (403, "submitter_may_not_decide")
    assert code(await desk.decide(asked["review_id"], "olga", **edit)) == (403, "submitter_may_not_decide")
    assert (await desk.decide(asked["review_id"], "oscar")).status_code == 200


async def test_an_edit_keeps_its_origin(api: Api) -> None:
    desk = await paid(api)
    asked = await desk.ask()
    args = {"payment": "p-1", "to": "eve", "amount": 29}
    edited = {"name": "give_back", "args": args}
    await desk.decide(asked.json()["review_id"], type="edit", edited_action=edited)
    (row,) = await desk.shop.sql("SELECT operation_id, origin FROM signoff.effects WHERE origin IS NOT NULL")
    assert row["operation_id"] != asked.json()["operation_id"]
    await desk.shop.alone.run(row["operation_id"])
    assert desk.bank.done[-1] == ("p-1", 29)


async def test_a_compensation_that_failed_can_be_asked_for_again(api: Api) -> None:
    desk = await paid(api)
    desk.bank.closed = True
    assert (await desk.done(await desk.ask()))["status"] == "failed"
    desk.bank.closed = False
    again = await desk.done(await desk.ask())
    assert (again["status"], desk.bank.done[-1]) == ("succeeded", ("p-1", 30))


async def test_the_same_call_once_more_each_time_with_a_review(api: Api) -> None:
    desk = await paid(api)
    operations = {desk.operation}
    for count in (2, 3):
        asked = (await desk.ask("execute-again")).json()
        assert code(await desk.ask("execute-again")) == (409, "effect_not_repeatable")  # its review is open
        await desk.decide(asked["review_id"])
        assert code(await desk.ask("execute-again")) == (409, "effect_not_repeatable")  # it has not left yet
        await desk.shop.alone.run(asked["operation_id"])
        after = (await api.get("olga", f"/v1/effects/{asked['operation_id']}")).json()
        assert (after["status"], after["origin"]["kind"]) == ("succeeded", "again")
        operations.add(after["operation_id"])
        assert desk.bank.done == [("pay", 30)] * count
    assert len(operations) == 3


async def test_the_runs_of_the_job_neither_wait_for_it_nor_end_it(api: Api) -> None:
    desk = await paid(api)
    asked = await desk.ask()
    reopened = "UPDATE signoff.jobs SET status = 'awaiting_review', ended_at = NULL, result = NULL WHERE id = %s"
    await desk.shop.sql(reopened, desk.job_id)
    assert (await desk.done(await desk.ask("execute-again")))["status"] == "succeeded"
    assert (await desk.shop.job(desk.job_id)).status is JobStatus.awaiting_review
    # The thread waits for no review, and its job's end ends no review but those of its runs.
    following = await desk.shop.submit(thread_id=(await desk.shop.job(desk.job_id)).thread_id)
    assert following.status is JobStatus.waiting
    await cancel_job(api.store, NoHints(), desk.job_id, PRODUCER)
    assert (await desk.done(asked))["status"] == "succeeded"


async def test_arguments_can_be_given_and_have_to_fit(api: Api) -> None:
    desk = await paid(api)
    assert code(await desk.ask(args={"payment": "p"})) == (422, "invalid_request")
    assert code(await desk.ask(args=[1])) == (422, "invalid_request")
    asked = await desk.ask(args={"payment": "p-9", "to": "ada", "amount": 1})
    assert (await desk.done(asked))["status"] == "succeeded"
    assert desk.bank.done[-1] == ("p-9", 1)


async def test_what_is_denied_undeclared_purged_or_not_done_is_refused(api: Api) -> None:
    denied = deny("*", when="args.amount > 0", reviewers=["finance"])
    desk = await paid(api, [allow("pay", when="args.amount < 100", reviewers=["finance"]), denied])
    assert code(await desk.ask()) == (409, "call_denied")
    assert code(await desk.ask(who="rita")) == (403, "right_missing")
    assert (await desk.ask("execute-again")).status_code == 201  # allowed without asking: still a review
    await desk.shop.sql("UPDATE signoff.agents SET tools = (tools::jsonb #- '{pay,compensation}')::json")
    assert code(await desk.ask()) == (409, "compensation_undeclared")
    await desk.shop.sql("UPDATE signoff.reviews SET status = 'cancelled'")
    purged = "args = NULL, result = NULL, result_type = NULL, purged_at = clock_timestamp()"
    await desk.shop.sql(f"UPDATE signoff.effects SET {purged}")
    assert code(await desk.ask("execute-again")) == (409, "effect_purged")
    await desk.shop.sql("UPDATE signoff.effects SET status = 'failed'")
    assert code(await desk.ask("execute-again")) == (409, "effect_not_repeatable")


async def test_where_nobody_is_named_nobody_can_be_asked(api: Api) -> None:
    desk = await paid(api, [allow("pay"), review("give_back", reviewers=["finance"])])
    assert code(await desk.ask("execute-again")) == (409, "call_denied")


async def test_approval_is_no_way_round_a_policy_that_denies_it_since(api: Api) -> None:
    desk = await paid(api)
    asked = (await desk.ask()).json()
    await desk.decide(asked["review_id"])
    tightened = Workshop(api.store, desk.bank.tools, rules=[deny("*")])
    await tightened.enrol()
    await tightened.alone.run(asked["operation_id"])
    assert (await api.get("olga", f"/v1/effects/{asked['operation_id']}")).json()["status"] == "revoked"
    assert desk.bank.done == [("pay", 30)]
