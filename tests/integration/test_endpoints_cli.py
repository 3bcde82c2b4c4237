"""`signoff endpoints`: the database's address is all that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from signoff.infra.postgres.endpoints import EndpointTable
from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def shown(cli: Cli, name: str = "crm") -> dict[str, Any]:
    found: dict[str, Any] = cli.json(None, "endpoints", "show", name)
    return found


def accepted(cli: Cli, name: str = "crm") -> Sequence[str]:
    """The secrets that count now, newest first."""

    async def look(store: PostgresStore) -> Sequence[str]:
        async with store.connection() as conn:
            return [secret.text for secret in (await EndpointTable(conn).live(name))[1]]

    return cli.world(look)


def test_from_create_to_revoke(cli: Cli) -> None:
    result = cli.run(None, "endpoints", "create", "crm", "--speaks-for", "finance", "--speaks-for", "@sam")
    assert result.stdout.startswith("whsec_")
    assert len(result.stdout.split()) == 1
    assert "/v1/webhooks/crm/decisions" in result.stderr
    assert "@sam, finance" in result.stderr
    assert "[endpoint_exists]" in cli.refused(None, "endpoints", "create", "crm", "--speaks-for-all")
    (endpoint,) = cli.json(None, "endpoints", "list")["endpoints"]
    assert endpoint == shown(cli)
    assert (endpoint["speaks_for"], endpoint["dialect"], endpoint["revoked_at"]) == (["@sam", "finance"], None, None)
    cli.ok(None, "endpoints", "revoke", "crm")
    assert shown(cli)["revoked_at"] is not None
    assert "[endpoint_not_found]" in cli.refused(None, "endpoints", "revoke", "crx")


def test_no_view_has_a_secret(cli: Cli) -> None:
    secret = cli.ok(None, "endpoints", "create", "crm", "--speaks-for-all", "--quiet").strip()
    for command in (["list"], ["list", "--json"], ["show", "crm"], ["show", "crm", "--json"]):
        said = cli.ok(None, "endpoints", *command)
        assert "crm" in said
        assert secret.removeprefix("whsec_")[:12] not in said


def test_a_rotated_secret_goes_on_beside_the_new_one(cli: Cli) -> None:
    first = cli.json(None, "endpoints", "create", "crm", "--speaks-for-all")["secret"]
    second = cli.ok(None, "endpoints", "rotate", "crm", "--overlap", "15m", "--quiet").strip()
    assert accepted(cli) == [second, first]
    third = cli.json(None, "endpoints", "rotate", "crm", "--overlap", "0")
    assert accepted(cli) == [third["secret"]]
    ends = [secret["ends_at"] for secret in third["secrets"]]
    assert [end is None for end in ends] == [True, False, False]


def test_an_ending_secret_is_not_given_more_time_by_the_next_rotation(cli: Cli) -> None:
    cli.json(None, "endpoints", "create", "crm", "--speaks-for-all")
    cli.ok(None, "endpoints", "rotate", "crm", "--overlap", "15m")
    before = shown(cli)["secrets"][-1]["ends_at"]
    cli.ok(None, "endpoints", "rotate", "crm")
    assert shown(cli)["secrets"][-1]["ends_at"] == before


def test_what_is_not_given_to_set_stays(cli: Cli) -> None:
    cli.ok(None, "endpoints", "create", "crm", "--speaks-for", "finance", "--dialect", "ag-ui")
    cli.ok(None, "endpoints", "set", "crm", "--speaks-for", "legal")
    assert (shown(cli)["speaks_for"], shown(cli)["dialect"]) == (["legal"], "ag-ui")
    cli.ok(None, "endpoints", "set", "crm", "--dialect", "agent-inbox")
    assert (shown(cli)["speaks_for"], shown(cli)["dialect"]) == (["legal"], "agent-inbox")
    cli.ok(None, "endpoints", "set", "crm", "--speaks-for-all", "--no-dialect")
    assert (shown(cli)["speaks_for"], shown(cli)["dialect"]) == (["*"], None)


def test_a_revoked_endpoint_does_not_come_back(cli: Cli) -> None:
    cli.ok(None, "endpoints", "create", "crm", "--speaks-for-all")
    cli.ok(None, "endpoints", "revoke", "crm")
    before = shown(cli)
    for command in (["rotate", "crm"], ["set", "crm", "--speaks-for-all"]):
        assert "[endpoint_not_found]" in cli.refused(None, "endpoints", *command)
    assert "[endpoint_exists]" in cli.refused(None, "endpoints", "create", "crm", "--speaks-for-all")
    cli.ok(None, "endpoints", "revoke", "crm")
    assert shown(cli) == before


BAD_USAGE = [
    *(["create", name, "--speaks-for-all"] for name in ("", "a/b", "a b", "ä", "x" * 101)),
    ["create", "crm"],
    ["create", "crm", "--speaks-for", "finance", "--speaks-for-all"],
    ["create", "crm", "--speaks-for", "*"],
    ["create", "crm", "--speaks-for", " "],
    ["create", "crm", "--speaks-for", "@"],
    ["create", "crm", "--speaks-for-all", "--dialect", "cobol"],
    ["set", "crm"],
    ["set", "crm", "--dialect", "ag-ui", "--no-dialect"],
    ["rotate", "crm", "--overlap", "soon"],
    ["rotate", "crm", "--overlap", "31d"],
    ["rotate", "crm", "--overlap", "-1h"],
]


def test_what_makes_no_sense_is_bad_usage(cli: Cli) -> None:
    for options in BAD_USAGE:
        cli.usage_error(None, "endpoints", *options)
    assert cli.json(None, "endpoints", "list")["endpoints"] == []
