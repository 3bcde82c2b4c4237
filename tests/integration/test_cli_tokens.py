"""`signoff tokens`: the database's address is all that it needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.infra.postgres.store import PostgresStore
from tests.support.api import dump
from tests.support.cli import Cli
from tests.support.parked import parked


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def create(cli: Cli, *options: str) -> dict[str, Any]:
    token: dict[str, Any] = cli.json(None, "tokens", "create", *options)
    return token


def works(cli: Cli, token: str) -> bool:
    return cli.run(None, "jobs", "list", TOKEN=token).exit_code == 0


def test_standard_output_is_the_token_alone(cli: Cli) -> None:
    result = cli.run(None, "tokens", "create", "--name", "ada", "--right", "review", "--group", "finance")
    assert result.exit_code == 0
    (token,) = result.stdout.splitlines()
    assert works(cli, token)
    assert token not in result.stderr
    assert "person ada in finance: review" in result.stderr


def test_quiet_says_nothing_else(cli: Cli) -> None:
    result = cli.run(None, "tokens", "create", "--name", "ada", "--right", "submit", "--quiet")
    assert (len(result.stdout.split()), result.stderr) == (1, "")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--right", "review"], "person"),
        (["--right", "submit"], "service"),
        (["--right", "operate", "--right", "submit"], "service"),
        (["--right", "operate", "--kind", "person"], "person"),
    ],
)
def test_the_kind_follows_from_the_rights_unless_it_is_given(cli: Cli, options: list[str], kind: str) -> None:
    assert create(cli, "--name", "ada", *options)["kind"] == kind


def test_a_second_token_of_the_same_owner_is_a_rotation(cli: Cli) -> None:
    first = create(cli, "--name", "ada", "--right", "review", "--group", "finance")
    second = create(cli, "--name", "ada")
    same = create(cli, "--name", "ada", "--right", "review")
    assert (second["groups"], second["rights"], second["kind"]) == (["finance"], ["review"], "person")
    assert same["groups"] == ["finance"]
    cli.ok(None, "tokens", "revoke", first["token_id"])
    assert [works(cli, token["token"]) for token in (first, second, same)] == [False, True, True]


@pytest.mark.parametrize(
    "options", [["--right", "operate"], ["--group", "legal"], ["--right", "review", "--right", "submit"]]
)
def test_somebody_who_exists_is_never_changed_by_a_new_token(cli: Cli, options: list[str]) -> None:
    create(cli, "--name", "ada", "--right", "review", "--group", "finance")
    assert "[principal_exists]" in cli.refused(None, "tokens", "create", "--name", "ada", *options)
    (token,) = [token for token in cli.json(None, "tokens", "list")["tokens"] if token["name"] == "ada"]
    assert (token["groups"], token["rights"]) == (["finance"], ["review"])


@pytest.mark.parametrize(
    "options",
    [
        ["--name", "new"],
        ["--right", "submit"],
        ["--name", "new", "--right", "rule"],
        ["--name", " ", "--right", "submit"],
        ["--name", "new", "--right", "review", "--kind", "service"],
        ["--name", "new", "--right", "review", "--group", ""],
        ["--name", "new", "--right", "review", "--group", "@rita"],
        ["--name", "new", "--right", "review", "--group", "*"],
        ["--name", "a\x00b", "--right", "submit"],
    ],
)
def test_what_makes_no_sense_is_bad_usage(cli: Cli, options: list[str]) -> None:
    before = cli.json(None, "tokens", "list")
    cli.usage_error(None, "tokens", "create", *options)
    assert cli.json(None, "tokens", "list") == before


def test_list_shows_no_secret(cli: Cli) -> None:
    token = create(cli, "--name", "ada", "--right", "submit")
    for listed in (cli.ok(None, "tokens", "list"), json.dumps(cli.json(None, "tokens", "list"))):
        assert token["token_id"] in listed
        assert token["token"] not in listed
        assert token["token"].removeprefix("sgn_")[:12] not in listed


def test_revoking_by_name_takes_everything_at_once(cli: Cli) -> None:
    tokens = [create(cli, "--name", "ada", "--right", "submit"), create(cli, "--name", "ada")]
    cli.ok(None, "tokens", "revoke", "--name", "ada")
    assert [works(cli, token["token"]) for token in tokens] == [False, False]
    assert "[principal_exists]" in cli.refused(None, "tokens", "create", "--name", "ada")


def test_a_rotated_token_goes_on_beside_the_new_one(cli: Cli) -> None:
    first = create(cli, "--name", "ada", "--right", "submit")
    second = cli.json(None, "tokens", "rotate", "ada", "--overlap", "15m")
    assert (second["name"], second["rights"]) == ("ada", ["submit"])
    assert [works(cli, token["token"]) for token in (first, second)] == [True, True]
    third = cli.ok(None, "tokens", "rotate", second["token_id"], "--overlap", "0", "--quiet").strip()
    assert [works(cli, token) for token in (first["token"], second["token"], third)] == [True, False, True]
    ends = [token["ends_at"] is None for token in cli.json(None, "tokens", "list")["tokens"] if token["name"] == "ada"]
    assert ends == [False, False, True]


def test_a_token_that_is_over_has_no_successor(cli: Cli) -> None:
    first = create(cli, "--name", "ada", "--right", "submit")
    cli.ok(None, "tokens", "rotate", "ada", "--overlap", "0")
    for which in (first["token_id"], "nobody", "00000000-0000-4000-8000-000000000000"):
        assert "[token_not_found]" in cli.refused(None, "tokens", "rotate", which)
    create(cli, "--name", "ada")
    assert "2 tokens" in cli.refused(None, "tokens", "rotate", "ada")
    cli.ok(None, "tokens", "revoke", "--name", "ada")
    assert "[token_not_found]" in cli.refused(None, "tokens", "rotate", "ada")


def test_rotation_leaves_what_a_person_approved_as_it_is(cli: Cli) -> None:
    job = cli.world(parked)
    cli.ok("rita", "reviews", "decide", job.review_id, "--approve")
    before = dump(cli.database_url)
    cli.ok(None, "tokens", "rotate", "rita", "--overlap", "0")
    after = dump(cli.database_url)
    assert {name for name in after if after[name] != before[name]} <= {"tokens", "audit"}
    assert not works(cli, cli.tokens["rita"])
    [item] = cli.json("olga", "reviews", "show", job.review_id)["items"]
    assert (item["decision"]["type"], item["decision"]["reviewer"]) == ("approve", "rita")


def test_the_last_use_of_a_token_is_listed(cli: Cli) -> None:
    token = create(cli, "--name", "ada", "--right", "submit")

    def last_used() -> str | None:
        [found] = [one for one in cli.json(None, "tokens", "list")["tokens"] if one["token_id"] == token["token_id"]]
        moment: str | None = found["last_used_at"]
        return moment

    assert last_used() is None
    assert works(cli, token["token"])
    assert last_used() is not None
    assert "last used" in cli.ok(None, "tokens", "list")


def test_revoking_what_is_not_there(cli: Cli) -> None:
    assert "[principal_not_found]" in cli.refused(None, "tokens", "revoke", "--name", "nobody")
    unknown = "00000000-0000-4000-8000-000000000000"
    assert "[token_not_found]" in cli.refused(None, "tokens", "revoke", unknown)
    cli.usage_error(None, "tokens", "revoke")
    cli.usage_error(None, "tokens", "revoke", unknown, "--name", "ada")


def test_no_broker_is_needed(cli: Cli) -> None:
    result = cli.run(None, "tokens", "list", REDIS_URL="nonsense")
    assert result.exit_code == 0


def test_the_audit_names_who_administers(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ann")
    cli.ok(None, "tokens", "create", "--name", "tom", "--right", "submit")
    cli.ok(None, "endpoints", "create", "chat", "--speaks-for-all")
    cli.ok(None, "endpoints", "set", "chat", "--speaks-for", "finance")

    async def actors(store: PostgresStore) -> list[dict[str, Any]]:
        async with store.connection() as conn:
            found = await conn.execute("SELECT act, actor FROM signoff.audit WHERE body::text LIKE ANY(%s)", (NAMES,))
            return await found.fetchall()

    named = cli.world(actors)
    assert len(named) >= 3
    assert {row["actor"] for row in named} == {"ann"}


NAMES = ["%tom%", "%chat%"]
