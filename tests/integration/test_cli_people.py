"""`signoff people`: the database's address is all that it needs."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli
from tests.support.parked import parked


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def people(cli: Cli, *arguments: object) -> Any:
    return cli.json(None, "people", *arguments)


def test_groups_and_rights_are_replaced_and_hold_at_once(cli: Cli) -> None:
    cli.world(parked)
    assert len(cli.json("rita", "reviews", "list")["reviews"]) == 1
    after = people(cli, "set", "rita", "--group", "legal", "--group", "sales")
    assert (after["groups"], after["rights"]) == (["legal", "sales"], ["review"])
    assert cli.json("rita", "reviews", "list")["reviews"] == []
    after = people(cli, "set", "rita", "--group", "finance", "--right", "see")
    assert (after["groups"], after["rights"]) == (["finance"], ["see"])
    (review,) = cli.json("rita", "reviews", "list")["reviews"]
    assert "[not_a_reviewer]" in cli.refused("rita", "reviews", "decide", review["review_id"], "--approve")
    assert people(cli, "set", "rita", "--no-groups")["groups"] == []
    assert [one["name"] for one in people(cli, "list")["people"]] == ["olga", "ravi", "rita", "sam"]
    assert "ravi" in cli.ok(None, "people", "list")


def test_a_limit_is_added_shown_and_taken_away(cli: Cli) -> None:
    for options in (["--tool", "refund", "--when", "args.amount <= 5", "--for", "30d"], ["--tool", "send_*"]):
        people(cli, "limit", "rita", *options, "--by", "ada")
    second, first = people(cli, "show", "rita")["grants"]
    assert (first["tools"], first["when"], first["created_by"]) == (["refund"], "args.amount <= 5", "ada")
    assert (second["tools"], second["expires_at"], second["state"]) == (["send_*"], None, "active")
    assert "2 grants" in cli.ok(None, "people", "show", "rita")
    for grant in (first, second):
        cli.ok(None, "people", "revoke-grant", grant["id"])
    after = people(cli, "show", "rita")
    assert (after["limited"], {grant["state"] for grant in after["grants"]}) == (True, {"revoked"})
    assert "decides nothing" in cli.ok(None, "people", "show", "rita")
    assert people(cli, "unlimit", "rita")["limited"] is False


def test_a_limit_holds_when_something_is_decided(cli: Cli) -> None:
    job = cli.world(parked)
    people(cli, "limit", "rita", "--tool", "refund", "--when", "args.amount < 30")
    assert "[beyond_authority]" in cli.refused("rita", "reviews", "decide", job.review_id, "--approve")
    people(cli, "limit", "rita", "--tool", "refund", "--when", "args.amount == 30")
    cli.ok("rita", "reviews", "decide", job.review_id, "--approve")


def test_a_delegate_decides_with_both_names_known(cli: Cli) -> None:
    job = cli.world(parked)
    assert "[review_not_found]" in cli.refused("sam", "reviews", "decide", job.review_id, "--approve")
    held = people(cli, "delegate", "rita", "sam", "--tool", "refund", "--for", "14d")
    (delegation,) = held["delegations_held"]
    assert (delegation["from"], delegation["to"], delegation["tools"]) == ("rita", "sam", ["refund"])
    assert people(cli, "show", "rita")["delegations_given"] == [delegation]
    assert "rita" in cli.ok(None, "people", "show", "sam")
    cli.ok("sam", "reviews", "decide", job.review_id, "--approve")


REFUSED = {
    "unknown": (["limit", "nobody", "--tool", "x"], "principal_not_found", "no person 'nobody'"),
    "a service": (["limit", "shop", "--tool", "x"], "invalid_request", "is a service"),
    "set for a service": (["set", "shop", "--right", "operate"], "invalid_request", "is a service"),
    "revoked": (["limit", "ravi", "--tool", "x"], "principal_revoked", "revoked"),
    "set for who is revoked": (["set", "ravi", "--right", "see"], "principal_revoked", "revoked"),
    "unlimit nobody": (["unlimit", "nobody"], "principal_not_found", "nobody"),
    "show a service": (["show", "shop"], "principal_not_found", "shop"),
    "pattern": (["limit", "rita", "--tool", "[ab]"], "invalid_request", "wildcards"),
    "condition": (["limit", "rita", "--tool", "x", "--when", "args.amount <"], "invalid_request", "can't be"),
    "variable": (["limit", "rita", "--tool", "x", "--when", "amount < 3"], "invalid_request", "unknown"),
    "past": (["limit", "rita", "--tool", "x", "--until", "2001-01-01T00:00Z"], "invalid_request", "ended"),
    "to nobody": (["delegate", "rita", "nobody", "--tool", "x", "--for", "1d"], "principal_not_found", "nobody"),
    "to oneself": (["delegate", "rita", "rita", "--tool", "x", "--for", "1d"], "delegation_refused", "themselves"),
    "to a service": (["delegate", "rita", "shop", "--tool", "x", "--for", "1d"], "delegation_refused", "is a service"),
    "by a service": (["delegate", "shop", "rita", "--tool", "x", "--for", "1d"], "delegation_refused", "is a service"),
    "to who is revoked": (["delegate", "rita", "ravi", "--tool", "x", "--for", "1d"], "delegation_refused", "revoked"),
    "by who is revoked": (["delegate", "ravi", "rita", "--tool", "x", "--for", "1d"], "delegation_refused", "revoked"),
    "no reviewer": (["delegate", "rita", "olga", "--tool", "x", "--for", "1d"], "delegation_refused", "olga does not"),
    "by no reviewer": (
        ["delegate", "olga", "rita", "--tool", "x", "--for", "1d"],
        "delegation_refused",
        "olga does not",
    ),
    "for too long": (["delegate", "rita", "sam", "--tool", "x", "--for", "367d"], "invalid_request", "366 days"),
    "no such grant": (["revoke-grant", "00000000-0000-4000-8000-000000000000"], "grant_not_found", "no grant"),
}


def test_what_is_refused_says_why_and_changes_nothing(cli: Cli) -> None:
    cli.ok(None, "tokens", "revoke", "--name", "ravi")
    before = people(cli, "list")
    for arguments, code, words in REFUSED.values():
        said = cli.refused(None, "people", *arguments)
        assert f"[{code}]" in said, arguments
        assert words in said, arguments
    assert people(cli, "list") == before
    assert people(cli, "show", "rita")["grants"] == []
    assert people(cli, "show", "rita")["delegations_given"] == []


NO_SENSE = [
    ["set", "rita"],
    ["set", "rita", "--group", "x", "--no-groups"],
    ["set", "rita", "--right", "rule"],
    ["limit", "rita"],
    ["limit", "rita", "--tool", "x", "--for", "tomorrow"],
    ["limit", "rita", "--tool", "x", "--until", "2099-01-01T00:00"],
    ["limit", "rita", "--tool", "x", "--until", "2099-01-01T00:00Z", "--for", "1d"],
    ["delegate", "rita", "sam", "--tool", "x"],
]


def test_what_makes_no_sense_is_bad_usage(cli: Cli) -> None:
    for arguments in NO_SENSE:
        cli.usage_error(None, "people", *arguments)


def test_the_audit_knows_who_did_it(cli: Cli) -> None:
    people(cli, "set", "rita", "--group", "legal", "--by", "ada")
    people(cli, "limit", "rita", "--tool", "x", "--by", "bob")

    async def acts(store: PostgresStore) -> list[tuple[str, str]]:
        async with store.connection() as conn:
            sql = "SELECT act, actor FROM signoff.audit WHERE actor IN ('ada', 'bob') ORDER BY position"
            return [(row["act"], row["actor"]) for row in await (await conn.execute(sql)).fetchall()]

    (changed, by_ada), *others = cli.world(acts)
    assert (changed.partition(".")[2], by_ada) == ("changed", "ada")
    assert [actor for _, actor in others] == ["bob", "bob"]
