"""`signoff effects` over a real store."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.domain.effects import Outcome, Step
from tests.support.cli import Cli
from tests.support.parked import FAILED, IN_DOUBT, parked, tried


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def effect(cli: Cli, steps: tuple[Step, ...], outcome: Outcome = Outcome.unknown) -> dict[str, Any]:
    """An approved refund that was sent and came to `outcome`."""
    review = cli.world(parked)
    cli.ok("rita", "reviews", "decide", review.review_id, "--approve")
    (planned,) = cli.json("olga", "effects", "list", "--job", review.job_id)["effects"]
    cli.world(lambda store: tried(store, review.job_id, planned["operation_id"], *steps, outcome=outcome))
    shown: dict[str, Any] = cli.json("olga", "effects", "show", planned["operation_id"])
    return shown


def in_doubt(cli: Cli) -> str:
    operation: str = effect(cli, IN_DOUBT)["operation_id"]
    return operation


def test_list_filters_like_the_http_api(cli: Cli) -> None:
    doubted = effect(cli, IN_DOUBT)
    for options in ([], ["--status", "in_doubt"], ["--tool", "refund"], ["--job", doubted["job_id"]]):
        (found,) = cli.json("olga", "effects", "list", *options)["effects"]
        assert found["operation_id"] == doubted["operation_id"]
    assert cli.json("olga", "effects", "list", "--status", "succeeded")["effects"] == []
    assert cli.json("other-shop", "effects", "list") == {"effects": [], "next": None}
    header, line = cli.ok("shop", "effects", "list").splitlines()
    assert header.split()[0] == "operation"
    assert line.split()[:3] == [doubted["operation_id"], "in_doubt", "refund"]


def test_show_tells_the_whole_story_on_one_screen(cli: Cli) -> None:
    doubted = effect(cli, IN_DOUBT)
    shown = cli.ok("olga", "effects", "show", doubted["operation_id"])
    assert "by rita at" in shown
    assert '"amount": 30' in shown
    assert "1. " in shown
    assert "unknown  by worker-1: as the test wants it" in shown
    assert "dispatched to in_doubt  by test: no answer" in shown
    assert f"signoff effects resolve {doubted['operation_id']} --applied" in shown
    assert len(shown.splitlines()) < 40
    assert "[effect_not_found]" in cli.refused("other-shop", "effects", "show", doubted["operation_id"])


def test_resolve_as_applied(cli: Cli) -> None:
    operation = in_doubt(cli)
    after = cli.json("olga", "effects", "resolve", operation, "--applied", "--reference", "re_1", "--reason", "seen")
    assert (after["status"], after["provider_reference"]) == ("succeeded", "re_1")
    assert after["result"] == {"status": "success", "content": "Done; the provider's reference is re_1."}
    assert (after["history"][-1]["actor"], after["history"][-1]["reason"]) == ("olga", "seen")
    assert cli.json("olga", "jobs", "show", after["job_id"])["status"] == "queued"


def test_resolve_as_applied_with_words_for_the_agent(cli: Cli) -> None:
    options = ("--applied", "--reference", "re_1", "--reason", "seen", "--result", "Refunded as re_1")
    after = cli.json("olga", "effects", "resolve", in_doubt(cli), *options)
    assert after["result"]["content"] == "Refunded as re_1"


def test_resolve_as_not_applied_lets_it_be_sent_again(cli: Cli) -> None:
    after = cli.json("olga", "effects", "resolve", in_doubt(cli), "--not-applied", "--reason", "not in their log")
    assert (after["status"], after["doubt_since"]) == ("retry_wait", None)


@pytest.mark.parametrize(
    "options",
    [
        ["--applied", "--reason", "seen"],
        ["--reason", "seen"],
        ["--applied", "--not-applied", "--reference", "r", "--reason", "seen"],
        ["--not-applied", "--reference", "r", "--reason", "seen"],
        ["--applied", "--reference", "r"],
        ["--applied", "--reference", "r", "--reason", " "],
    ],
)
def test_a_finding_is_whole(cli: Cli, options: list[str]) -> None:
    cli.usage_error("olga", "effects", "resolve", "op", *options)


def test_replay_and_skip_of_what_failed(cli: Cli) -> None:
    failed = effect(cli, FAILED, Outcome.refused)["operation_id"]
    assert "[effect_not_in_doubt]" in cli.refused(
        "olga", "effects", "resolve", failed, "--not-applied", "--reason", "x"
    )
    after = cli.json("olga", "effects", "replay", failed, "--reason", "their limit was raised")
    assert (after["status"], after["generation"], after["alone"]) == ("planned", 1, True)
    other = effect(cli, FAILED, Outcome.refused)["operation_id"]
    skipped = cli.json("olga", "effects", "skip", other, "--result", "Paid by hand", "--reason", "at the counter")
    assert (skipped["status"], skipped["result"]["content"]) == ("skipped", "Paid by hand")
    assert "[effect_not_replayable]" in cli.refused("olga", "effects", "replay", other, "--reason", "x")


def test_doubt_is_not_replayed(cli: Cli) -> None:
    assert "[effect_not_replayable]" in cli.refused("olga", "effects", "replay", in_doubt(cli), "--reason", "x")


@pytest.mark.parametrize("who", ["shop", "rita"])
def test_only_operators_settle(cli: Cli, who: str) -> None:
    operation = in_doubt(cli)
    for command in (["replay"], ["resolve", "--not-applied"], ["skip", "--result", "x"]):
        said = cli.refused(who, "effects", command[0], operation, *command[1:], "--reason", "x")
        assert "[right_missing]" in said
    assert cli.json("olga", "effects", "show", operation)["status"] == "in_doubt"
