"""Subscriptions over the command line and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from standardwebhooks import Webhook

from tests.support.api import Api, dump, open_api
from tests.support.cli import Cli

WEBHOOK = {"name": "billing", "kind": "webhook", "target": "https://billing.test/hook?key=1"}
SLACK = {"name": "leads", "kind": "slack", "target": "https://hooks.slack.test/services/T0/B0/hush"}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def sending(database_url: str, status: str) -> str:
    """A sending of the one subscription, in this state."""
    with psycopg.connect(database_url) as conn:
        row = conn.execute(
            "INSERT INTO signoff.sendings (id, subscription_id, event_id, event_cursor, event_type, sequence, body,"
            " status, last_status, last_error) SELECT gen_random_uuid(), id, gen_random_uuid(), '7-7',"
            " 'signoff.job.held.v1', 0, '{}', %s, 500, 'answered 500' FROM signoff.subscriptions RETURNING id::text",
            (status,),
        ).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.anyio
async def test_http(api: Api, database_url: str) -> None:
    created = await api.post("olga", "/v1/subscriptions", {**WEBHOOK, "filter": {"tool": ["refund*"]}})
    assert created.status_code == 201
    assert Webhook(created.json()["secret"])
    path = created.headers["location"]
    shown = (await api.get("olga", path)).json()
    assert "secret" not in shown
    assert (shown["name"], shown["filter"], shown["event_types"]) == ("billing", {"tool": ["refund*"]}, ["signoff.*"])
    assert shown["target"] == "https://billing.test/hook?…"
    assert [found["name"] for found in (await api.get("olga", "/v1/subscriptions")).json()["subscriptions"]] == [
        "billing"
    ]
    rotated = (await api.post("olga", f"{path}/rotate", {"overlap_seconds": 60})).json()
    assert rotated["secret"] not in (created.json()["secret"], None)
    assert [bool(secret["ends_at"]) for secret in rotated["secrets"]] == [False, True]
    disabled = (await api.post("olga", "/v1/subscriptions/billing/disable", {"reason": "moving"})).json()
    assert (disabled["disabled_by"], disabled["disabled_reason"]) == ("olga", "moving")
    assert (await api.post("olga", f"{path}/enable")).json()["disabled_at"] is None
    dead = sending(database_url, "dead")
    (row,) = (await api.get("olga", f"{path}/sendings", status="dead")).json()["sendings"]
    assert (row["sending_id"], row["last_error"], "body" in row) == (dead, "answered 500", False)
    for body, count in (({"status": "dead", "dry_run": True}, 1), ({"sending_id": dead}, 1), ({"status": "dead"}, 0)):
        assert (await api.post("olga", f"{path}/redeliver", body)).json()["count"] == count


REFUSALS: list[tuple[str, Any, tuple[int, str | None]]] = [
    ("", {**WEBHOOK, "target": "http://billing.test/"}, (422, "address_refused")),
    ("", {**WEBHOOK, "target": "https://127.0.0.1/"}, (422, "address_refused")),
    ("", {"name": "mail", "kind": "mail", "target": "a@b.test, c@d.test"}, (422, "address_refused")),
    ("", {"name": "mail", "kind": "mail", "target": "a@b.test\r\nBcc: c@d.test"}, (422, "address_refused")),
    ("", {**WEBHOOK, "after": "7"}, (422, "invalid_request")),
    ("", {**SLACK, "name": "second"}, (201, None)),
    ("", SLACK, (409, "subscription_exists")),
    ("/leads/rotate", {}, (422, "invalid_request")),
    ("/leads/rotate", {"overlap_seconds": 1.5}, (422, "invalid_request")),
    ("/leads/disable", {}, (422, "invalid_request")),
    ("/leads/redeliver", {}, (422, "invalid_request")),
    ("/leads/redeliver", {"since": "soon"}, (422, "invalid_request")),
    ("/leads/redeliver", {"sending_id": "0b511ac0-0000-4000-8000-000000000000"}, (404, "sending_not_found")),
    ("/nobody/enable", None, (404, "subscription_not_found")),
    ("/leads/sendings", {}, (405, "method_not_allowed")),
]


@pytest.mark.anyio
async def test_http_refusals(api: Api) -> None:
    await api.post("olga", "/v1/subscriptions", SLACK)
    for path, body, expected in REFUSALS:
        answer = await api.post("olga", f"/v1/subscriptions{path}", body)
        assert (answer.status_code, answer.json().get("code")) == expected, (path, body)


@pytest.mark.anyio
async def test_only_operators(api: Api, database_url: str) -> None:
    await api.post("olga", "/v1/subscriptions", WEBHOOK)
    before = dump(database_url)
    posts = {"": SLACK, "/billing/disable": {"reason": "x"}, "/billing/enable": None, "/billing/rotate": {}}
    posts["/billing/redeliver"] = {"status": "sent"}
    for name in ("shop", "rita"):
        answers = [await api.get(name, f"/v1/subscriptions{path}") for path in ("", "/billing", "/billing/sendings")]
        answers += [await api.post(name, f"/v1/subscriptions{path}", body) for path, body in posts.items()]
        assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(403, "right_missing")}
    assert dump(database_url) == before


def test_command_line(cli: Cli) -> None:
    secret = cli.ok("olga", "subscriptions", "create", "billing", WEBHOOK["target"], "--event", "signoff.job.*").strip()
    assert Webhook(secret)
    shown = cli.json("olga", "subscriptions", "show", "billing")
    assert (shown["event_types"], shown["created_by"]) == (["signoff.job.*"], "olga")
    rotated = cli.ok("olga", "subscriptions", "rotate", "billing", "--overlap", "0").strip()
    assert rotated.startswith("whsec_")
    screen = cli.ok("olga", "subscriptions", "show", shown["id"])
    assert "whsec_" not in screen
    assert "signoff.job.*" in screen
    assert "billing" in cli.ok("olga", "subscriptions", "list")
    sending(cli.database_url, "dead")
    assert "answered 500" in cli.ok("olga", "subscriptions", "sendings", "billing")
    again = ("redeliver", "billing", "--status", "dead", "--since", "2020-01-01")
    assert cli.ok("olga", "subscriptions", *again, "--dry-run") == "1 would be sent again\n"
    assert cli.json("olga", "subscriptions", *again) == {"count": 1, "dry_run": False}
    assert "by olga: moving" in cli.ok("olga", "subscriptions", "disable", "billing", "--reason", "moving")
    assert cli.json("olga", "subscriptions", "enable", "billing")["disabled_at"] is None


def test_command_line_for_people(cli: Cli) -> None:
    leads = ("create", "leads", "leads@shop.test", "--kind", "mail", "--group", "finance", "--template", "{tool}")
    assert cli.ok("olga", "subscriptions", *leads) == "created: leads\n"
    slack = ("create", "slack", SLACK["target"], "--kind", "slack", "--from-start")
    assert cli.json("olga", "subscriptions", *slack)["secret"] is None
    assert "hush" not in cli.ok("olga", "subscriptions", "list")
    refusals = {
        ("create", "leads", "leads@shop.test", "--kind", "mail"): "subscription_exists",
        ("create", "x", "leads", "--kind", "mail"): "address_refused",
        ("create", "x", SLACK["target"], "--kind", "slack", "--template", "{args}"): "invalid_request",
        ("rotate", "leads"): "invalid_request",
        ("show", "nobody"): "subscription_not_found",
        ("redeliver", "leads"): "invalid_request",
    }
    for arguments, code in refusals.items():
        assert f"[{code}]" in cli.refused("olga", "subscriptions", *arguments)
    assert "right_missing" in cli.refused("rita", "subscriptions", "list")


def test_the_doctor_names_what_was_given_up(cli: Cli) -> None:
    cli.ok("olga", "subscriptions", "create", "billing", WEBHOOK["target"])
    sending(cli.database_url, "dead")
    result = cli.run(None, "doctor")
    assert result.exit_code == 1
    assert "billing: 1 dead" in result.stdout
    with psycopg.connect(cli.database_url) as conn:
        conn.execute("DELETE FROM signoff.sendings WHERE status = 'dead'")
        conn.execute(
            "UPDATE signoff.subscriptions SET disabled_at = now(), disabled_by = 'signoff', disabled_reason = 'gone'"
        )
    assert "billing: gone, 0 dead" in cli.run(None, "doctor").stdout
    cli.ok("olga", "subscriptions", "disable", "billing", "--reason", "it is")
    assert cli.run(None, "doctor").exit_code == 0
