"""`signoff reviews claim`, `release`, `reassign`, `comment`, `cancel`, and what `show` tells of them."""

from __future__ import annotations

import shlex

import pytest

from tests.support.cli import Cli
from tests.support.parked import parked, refund


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def test_each_act_and_what_show_tells_of_it(cli: Cli) -> None:
    review_id = cli.world(parked).review_id
    assert "claimed by  rita until" in cli.ok("rita", "reviews", "claim", review_id, "--for", "2h")
    assert "[review_claimed]" in cli.refused("ravi", "reviews", "decide", review_id, "--approve")
    assert cli.json("rita", "reviews", "release", review_id)["claimed_by"] is None
    cli.ok("rita", "reviews", "reassign", review_id, "--to", "@ravi", "--reason", "he knows")
    assert cli.json("rita", "reviews", "list", "--mine")["reviews"] == []
    assert "[invalid_request]" in cli.refused("rita", "reviews", "reassign", review_id, "--to", "legal")
    cli.ok("rita", "reviews", "reassign", review_id, "--to-all")
    (mine,) = cli.json("rita", "reviews", "list", "--mine", "--tool", "refund", "--reviewer", "finance")["reviews"]
    assert mine["review_id"] == str(review_id)
    cli.ok("shop", "reviews", "comment", review_id, "please\n\x1b[2Jhurry")
    shown = cli.ok("olga", "reviews", "cancel", review_id, "--reason", "a test")
    acts = [line.strip().split("  ", 1)[-1] for line in shown.partition("Acts\n")[2].splitlines()]
    assert acts == [
        "claimed by rita",
        "released by rita",
        "reassigned by rita: @ravi: he knows",
        "reassigned by rita",
        "commented by shop: please",
        "\\x1b[2Jhurry",
        "cancelled by olga: a test",
    ]
    for options in (["reassign", review_id], ["reassign", review_id, "--to", "a", "--to-all"], ["cancel", review_id]):
        cli.usage_error("olga", "reviews", *options)


def test_show_tells_of_revisions_voices_and_the_ladder(cli: Cli) -> None:
    terms = {"approvals": 2, "hidden": ["order"], "ladder": [{"after_seconds": 60}], "edits_need_another": True}
    review_id = cli.world(lambda store: parked(store, refund(terms=terms, shown={"balance": 12}))).review_id
    shown = cli.ok("rita", "reviews", "show", review_id)
    words = " ".join(shown.split())
    for told in ("approvals 0 of 2", "ladder 0 of 1 rungs, the next at", "hidden order", '"balance": 12'):
        assert told in words
    assert "A-1" not in shown
    (command,) = [shlex.split(line) for line in shown.splitlines() if "--edit" in line]
    cli.ok("rita", *command[1:-1], command[-1].replace("30", "20"))
    after = cli.ok("ravi", "reviews", "show", review_id)
    assert "2, amended by rita" in after
    assert '"amount": 30' in after.partition("proposed")[2]
    assert "edit by rita" in after.partition("decided so far")[2]
    said = cli.refused("ravi", "reviews", "decide", review_id, "--approve")
    assert "--revision 2" in said
    assert "[stale_decision]" in said
    assert "--revision" in cli.usage_error("ravi", "reviews", "decide", review_id, "--file", "-", "--revision", 2)
    (command,) = [shlex.split(line) for line in after.splitlines() if "--approve" in line]
    assert command[-3:] == ["--revision", "2", "--approve"]
    assert "decided" in cli.ok("ravi", *command[1:])
