"""Alarms: listed until somebody has seen to them, over HTTP and by command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from signoff.domain.evidence import Alarm, AlarmKind
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import Api, open_api
from tests.support.cli import Cli
from tests.support.operators import sent
from tests.support.parked import IN_DOUBT
from tests.support.reviewing import rows

MESSAGE = "try 1 succeeded after all, and it was sent 1 more time meanwhile"


async def alarmed(store: PostgresStore) -> str:
    """The operation of an effect with an alarm."""
    _, operation = await sent(store, IN_DOUBT)
    async with store.begin() as tx:
        effect = await tx.effects.lock(operation)
        assert effect is not None
        await tx.doubt.add_alarm(effect, Alarm(AlarmKind.duplicate, MESSAGE))
    return operation


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


async def listed(api: Api, who: str, **parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(who, "/v1/alarms", **parameters)).json()["alarms"]
    return found


@pytest.mark.anyio
async def test_an_alarm_is_listed_until_it_is_acknowledged_once(api: Api) -> None:
    operation = await alarmed(api.store)
    (alarm,) = await listed(api, "olga")
    assert (alarm["kind"], alarm["operation_id"], alarm["message"]) == ("duplicate", operation, MESSAGE)
    assert await listed(api, "shop") == [alarm]
    assert await listed(api, "other-shop") == []
    for parameters, count in (({"tool": "refund"}, 1), ({"kind": "contradiction"}, 0), ({"job": alarm["job_id"]}, 1)):
        assert len(await listed(api, "olga", **parameters)) == count
    path, body = f"/v1/alarms/{alarm['alarm_id']}/acknowledge", {"reason": "refunded one of them"}
    assert (await api.post("shop", path, body)).json()["code"] == "right_missing"
    assert (await api.post("olga", path, {})).json()["code"] == "invalid_request"
    answers = await asyncio.gather(*(api.post("olga", path, body, Idempotency_Key="k") for _ in range(3)))
    assert [answer.json() for answer in answers] == [{"alarm_id": alarm["alarm_id"], "operation_id": operation}] * 3
    assert (await api.post("olga", path, body)).json()["code"] == "alarm_acknowledged"
    assert await listed(api, "olga") == []
    (seen,) = await listed(api, "olga", acknowledged=True)
    assert seen["acknowledged_by"] == "olga"
    audited = await rows(api.store, "SELECT act, actor FROM signoff.audit WHERE act LIKE '%%alarm%%' ORDER BY position")
    assert [tuple(row.values()) for row in audited][-2:] == [
        ("alarm.changed", "olga"),
        ("operator.alarm.acknowledge", "olga"),
    ]
    other = f"/v1/alarms/{alarm['job_id']}/acknowledge"
    assert (await api.post("olga", other, body)).json()["code"] == "alarm_not_found"


def test_by_command_line(database_url: str, redis_url: str) -> None:
    cli = Cli(database_url, redis_url)
    operation = cli.world(alarmed)
    assert operation in cli.ok("olga", "alarms", "list")
    (alarm,) = cli.json("olga", "alarms", "list")["alarms"]
    act = ("alarms", "acknowledge", alarm["alarm_id"], "--reason", "refunded", "--request-id", "r")
    assert cli.ok("olga", *act) == cli.ok("olga", *act) == f"acknowledged, about {operation}\n"
    assert cli.json("olga", "alarms", "list")["alarms"] == []
    assert len(cli.json("olga", "alarms", "list", "--all")["alarms"]) == 1
