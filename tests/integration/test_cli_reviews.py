"""`signoff reviews` over a real store."""

from __future__ import annotations

import json
import shlex
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cli import Cli
from tests.support.parked import Parked, parked, refund


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


@pytest.fixture
def waiting(cli: Cli) -> Parked:
    return cli.world(parked)


def of_two(cli: Cli) -> tuple[Parked, list[dict[str, Any]]]:
    """A review of two refunds, and its items."""
    both = cli.world(lambda store: parked(store, refund(30), refund(40)))
    return both, cli.json("rita", "reviews", "show", both.review_id)["items"]


def decide(cli: Cli, review: Parked, *options: object, who: str = "rita", **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = cli.json(who, "reviews", "decide", review.review_id, *options, **more)
    return answer


def test_list_shows_those_that_one_may_see(cli: Cli, waiting: Parked) -> None:
    (review,) = cli.json("rita", "reviews", "list", "--status", "pending")["reviews"]
    assert review["review_id"] == str(waiting.review_id)
    assert cli.json("rita", "reviews", "list", "--status", "decided")["reviews"] == []
    assert cli.json("sam", "reviews", "list")["reviews"] == []
    header, line = cli.ok("rita", "reviews", "list").splitlines()
    assert header.split()[0] == "review"
    assert line.split()[:5] == [str(waiting.review_id), "pending", "desk", "refund", "finance"]


def test_show_gives_commands_that_decide(cli: Cli, waiting: Parked) -> None:
    shown = cli.ok("rita", "reviews", "show", waiting.review_id)
    assert '"amount": 30' in shown
    assert "'refunds' says review" in shown
    commands = [shlex.split(line) for line in shown.splitlines() if line.startswith("  signoff ")]
    assert [command[4] for command in commands] == ["--approve", "--edit", "--reject", "--respond"]
    assert "decided" in cli.ok("rita", *commands[1][1:])
    assert "signoff reviews decide" not in cli.ok("rita", "reviews", "show", waiting.review_id)
    assert "edit by rita" in cli.ok("rita", "reviews", "show", waiting.review_id)


def test_show_of_several_items_names_each_in_its_commands(cli: Cli) -> None:
    both, items = of_two(cli)
    shown = cli.ok("rita", "reviews", "show", both.review_id)
    for item in items:
        assert f"decide {both.review_id} --item {item['item_id']} --approve" in shown


def test_strangers_see_and_decide_nothing(cli: Cli, waiting: Parked) -> None:
    assert "[review_not_found]" in cli.refused("sam", "reviews", "show", waiting.review_id)
    assert "[review_not_found]" in cli.refused("sam", "reviews", "decide", waiting.review_id, "--approve")
    assert "[review_not_found]" in cli.refused("rita", "reviews", "decide", uuid4(), "--approve")


@pytest.mark.parametrize("who", ["shop", "olga"])
def test_who_may_look_may_not_decide_for_that(cli: Cli, waiting: Parked, who: str) -> None:
    assert "[not_a_reviewer]" in cli.refused(who, "reviews", "decide", waiting.review_id, "--approve")
    assert cli.json("rita", "reviews", "show", waiting.review_id)["status"] == "pending"


def test_approve_counts_once(cli: Cli, waiting: Parked) -> None:
    first = decide(cli, waiting, "--approve")
    assert (first["status"], first["job_id"]) == ("decided", str(waiting.job_id))
    assert first["decisions"][0]["type"] == "approve"
    assert decide(cli, waiting, "--approve") == first
    assert "as before" in cli.ok("rita", "reviews", "decide", waiting.review_id, "--approve")
    assert "[already_decided]" in cli.refused("rita", "reviews", "decide", waiting.review_id, "--reject", "no")
    assert cli.json("rita", "jobs", "show", waiting.job_id)["status"] == "queued"


@pytest.mark.parametrize(
    ("options", "stored"),
    [
        (["--reject", "not now"], {"type": "reject", "message": "not now", "then": "revise"}),
        (["--reject", ""], {"type": "reject", "message": None, "then": "stop"}),
        (["--reject", "ask them", "--then", "ask"], {"type": "reject", "message": "ask them", "then": "ask"}),
        (["--respond", "Paid already."], {"type": "respond", "message": "Paid already.", "then": None}),
        (["--edit", '{"order": "A-1", "amount": 5}'], {"type": "edit", "args": {"order": "A-1", "amount": 5}}),
    ],
)
def test_each_way_to_decide(cli: Cli, waiting: Parked, options: list[str], stored: dict[str, Any]) -> None:
    decide(cli, waiting, *options)
    decision = cli.json("rita", "reviews", "show", waiting.review_id)["items"][0]["decision"]
    assert {name: decision[name] for name in stored} == stored
    assert decision["reviewer"] == "rita"


def test_all_open_items_at_once(cli: Cli) -> None:
    both, _ = of_two(cli)
    assert len(decide(cli, both, "--approve")["decisions"]) == 2


def test_one_item_after_the_other(cli: Cli) -> None:
    both, items = of_two(cli)
    assert decide(cli, both, "--approve", "--item", items[1]["item_id"])["status"] == "pending"
    assert "job" not in cli.ok("rita", "reviews", "decide", both.review_id, "--approve", "--item", items[1]["item_id"])
    rest = decide(cli, both, "--reject", "no", who="ravi")
    assert (rest["status"], rest["decisions"][0]["item_id"]) == ("decided", items[0]["item_id"])


def test_an_edit_of_several_items_needs_one_named(cli: Cli) -> None:
    both, items = of_two(cli)
    assert "--item" in cli.usage_error("rita", "reviews", "decide", both.review_id, "--edit", "{}")
    args = json.dumps({"order": "A-1", "amount": 1})
    assert decide(cli, both, "--edit", args, "--item", items[0]["tool_call_id"])["status"] == "pending"


def test_a_file_decides_the_rest(cli: Cli) -> None:
    both, _ = of_two(cli)
    body = json.dumps({"decisions": [{"type": "approve"}, {"type": "reject", "message": "no", "then": "stop"}]})
    assert decide(cli, both, "--file", "-", input=body)["status"] == "decided"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"decisions": [{"type": "approve"}, {"type": "approve"}]}', "wrong_decision_count"),
        ('{"decisions": [{"type": "aprove"}]}', "invalid_request"),
        ('{"decisions": [{"type": "edit"}]}', "edit_incomplete"),
        ("{", "malformed_json"),
        ('{"decisions": [{"type": "respond"}]}', "message_required"),
    ],
)
def test_a_bad_file_changes_nothing(cli: Cli, waiting: Parked, body: str, code: str) -> None:
    said = cli.refused("rita", "reviews", "decide", waiting.review_id, "--file", "-", input=body)
    assert f"[{code}]" in said
    assert decide(cli, waiting, "--approve")["status"] == "decided"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ('{"order": "A-1"}', "edit_outside_schema"),
        ('{"order": "A-1", "amount": 2000}', "edit_denied"),
    ],
)
def test_an_edit_that_may_not_be_changes_nothing(cli: Cli, waiting: Parked, args: str, code: str) -> None:
    assert f"[{code}]" in cli.refused("rita", "reviews", "decide", waiting.review_id, "--edit", args)
    assert decide(cli, waiting, "--approve")["status"] == "decided"


@pytest.mark.parametrize("options", [[], ["--approve", "--reject", "no"], ["--approve", "--then", "stop"]])
def test_one_decision_is_asked_for(cli: Cli, waiting: Parked, options: list[str]) -> None:
    cli.usage_error("rita", "reviews", "decide", waiting.review_id, *options)


def test_what_a_model_wrote_only_shows(cli: Cli) -> None:
    call = refund(tool_call_id="call\x1b[2J", description="\u202eAll is well\x07")
    bad = cli.world(lambda store: parked(store, {**call, "args": None, "unreadable_args": "{\x1b[8m"}))
    shown = cli.ok("rita", "reviews", "show", bad.review_id)
    assert not {"\x1b", "\u202e", "\x07"} & set(shown)
    assert "unreadable arguments" in shown
