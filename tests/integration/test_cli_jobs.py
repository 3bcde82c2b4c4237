"""`signoff jobs` over a real store."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest
import redis

from signoff.infra.hints import agent_queue
from tests.support.cli import Cli
from tests.support.eventually import eventually_sync
from tests.support.parked import AGENT, ended, held, parked, submitted


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def test_submit_accepts_a_job_and_hints_at_it(cli: Cli) -> None:
    job = cli.json("shop", "jobs", "submit", AGENT, "Refund A-1", "--label", "team=eu", "--label", "a=b=c")
    assert (job["status"], job["agent"], job["input"]) == ("queued", AGENT, "Refund A-1")
    assert (job["submitted_by"], job["door"]) == ("shop", "cli")
    assert job["labels"] == {"team": "eu", "a": "b=c"}
    with redis.Redis.from_url(cli.redis_url) as broker:
        eventually_sync(lambda: broker.llen(agent_queue(AGENT)) == 1, message="no hint")


def test_submit_reads_standard_input(cli: Cli) -> None:
    assert (
        cli.json("shop", "jobs", "submit", AGENT, "-", input="Refund A-1\nand A-2\n")["input"] == "Refund A-1\nand A-2"
    )


def test_the_same_key_gets_the_first_job(cli: Cli) -> None:
    first = cli.json("shop", "jobs", "submit", AGENT, "Refund A-1", "--key", "k")
    again = cli.run("shop", "jobs", "submit", AGENT, "Refund A-1", "--key", "k")
    assert again.exit_code == 0
    assert first["job_id"] in again.stdout
    assert "an earlier request" in again.stderr
    assert "[idempotency_mismatch]" in cli.refused("shop", "jobs", "submit", AGENT, "Refund A-2", "--key", "k")


def test_a_thread_with_a_pending_review_refuses_unless_asked_to_cancel_it(cli: Cli) -> None:
    waiting = cli.world(parked)
    more = ("jobs", "submit", AGENT, "Go on", "--thread", waiting.thread_id)
    assert "[review_pending]" in cli.refused("shop", *more)
    assert cli.json("shop", *more, "--cancel-pending")["thread_id"] == waiting.thread_id
    assert cli.json("shop", "jobs", "show", waiting.job_id)["status"] == "cancelled"


def test_wait_answers_at_once_when_the_job_waits_for_a_person(cli: Cli) -> None:
    waiting = cli.world(lambda store: parked(store, idempotency_key="k"))
    same = ("jobs", "submit", AGENT, "Refund order A-1", "--key", "k", "--wait", 60)
    assert f"signoff reviews show {waiting.review_id}" in cli.ok("shop", *same)


def test_wait_exits_1_when_the_job_failed_meanwhile_and_0_when_the_time_is_up(cli: Cli) -> None:
    job = cli.world(lambda store: submitted(store, idempotency_key="k"))
    same = ("jobs", "submit", AGENT, "Refund order A-1", "--key", "k", "--wait")
    assert "queued" in cli.ok("shop", *same, 0.2)
    cli.world(lambda store: ended(store, job.id, well=False))
    result = cli.run("shop", *same, 60)
    assert result.exit_code == 1
    assert "step_limit: too many rounds" in result.stdout


@pytest.mark.parametrize("labels", [["team"], ["=eu"], ["a=1", "a=2"]])
def test_a_label_is_a_name_and_a_value_once(cli: Cli, labels: list[str]) -> None:
    options = [word for label in labels for word in ("--label", label)]
    assert "must be NAME=VALUE" in cli.usage_error("shop", "jobs", "submit", AGENT, "x", *options)


def test_bad_input_is_refused_by_its_code(cli: Cli) -> None:
    assert "[invalid_request]" in cli.refused("shop", "jobs", "submit", AGENT, "  ")
    assert "[agent_not_found]" in cli.refused("shop", "jobs", "submit", "nobody", "x")
    assert "[right_missing]" in cli.refused("rita", "jobs", "submit", AGENT, "x")


def test_list_filters_and_pages_like_the_http_api(cli: Cli) -> None:
    jobs = [cli.world(submitted) for _ in range(3)]
    failed = cli.world(submitted)
    cli.world(lambda store: ended(store, failed.id, well=False))
    assert len(cli.json("shop", "jobs", "list")["jobs"]) == 4
    assert cli.json("other-shop", "jobs", "list") == {"jobs": [], "next": None}
    assert _ids(cli.json("olga", "jobs", "list", "--status", "failed")) == [failed.id]
    assert _ids(cli.json("olga", "jobs", "list", "--thread", jobs[0].thread_id)) == [jobs[0].id]
    assert cli.json("olga", "jobs", "list", "--submitted-by", "rita")["jobs"] == []
    assert cli.json("olga", "jobs", "list", "--agent", "nobody")["jobs"] == []
    first = cli.json("olga", "jobs", "list", "--limit", 3)
    second = cli.json("olga", "jobs", "list", "--limit", 3, "--cursor", first["next"])
    assert [*_ids(first), *_ids(second)] == [failed.id, *(job.id for job in reversed(jobs))]
    assert second["next"] is None


def test_a_table_that_is_piped_cuts_nothing(cli: Cli) -> None:
    thread = "a-thread-with-a-long-name-" * 5
    job = cli.json("shop", "jobs", "submit", AGENT, "x", "--thread", thread)
    header, line = cli.ok("shop", "jobs", "list").splitlines()
    assert header.split()[:2] == ["job", "status"]
    assert line.split()[:4] == [job["job_id"], "queued", AGENT, thread]


def test_that_there_is_more_is_no_part_of_the_list(cli: Cli) -> None:
    for _ in range(2):
        cli.world(submitted)
    result = cli.run("shop", "jobs", "list", "--limit", 1)
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.startswith("there is more: --cursor ")


def test_show_says_what_came_of_it(cli: Cli) -> None:
    job = cli.world(submitted)
    cli.world(lambda store: ended(store, job.id))
    shown = cli.ok("shop", "jobs", "show", job.id)
    assert "succeeded" in shown
    assert "Done." in shown
    assert "[job_not_found]" in cli.refused("other-shop", "jobs", "show", job.id)
    assert "[job_not_found]" in cli.refused("olga", "jobs", "show", uuid4())


def test_show_says_who_is_waited_for(cli: Cli) -> None:
    waiting = cli.world(parked)
    assert f"signoff reviews show {waiting.review_id}" in cli.ok("rita", "jobs", "show", waiting.job_id)
    job = cli.world(submitted)
    cli.world(lambda store: held(store, job.id))
    assert f"signoff effects list --job {job.id}" in cli.ok("olga", "jobs", "show", job.id)


def test_cancel(cli: Cli) -> None:
    job = cli.world(submitted)
    assert cli.json("shop", "jobs", "cancel", job.id)["status"] == "cancelled"
    assert "cancelled by shop" in cli.ok("shop", "jobs", "cancel", job.id)
    done = cli.world(submitted)
    cli.world(lambda store: ended(store, done.id))
    assert "[job_ended]" in cli.refused("shop", "jobs", "cancel", done.id)


def test_retry_is_for_operators(cli: Cli) -> None:
    job = cli.world(submitted)
    assert "[job_not_failed]" in cli.refused("olga", "jobs", "retry", job.id, "--reason", "mended")
    cli.world(lambda store: ended(store, job.id, well=False))
    assert "[right_missing]" in cli.refused("shop", "jobs", "retry", job.id, "--reason", "mended")
    assert cli.json("olga", "jobs", "retry", job.id, "--reason", "mended")["status"] == "queued"


def test_a_token_is_needed_and_may_come_from_a_file(cli: Cli, tmp_path: Path) -> None:
    assert "[token_invalid]" in cli.refused(None, "jobs", "list")
    assert "[token_invalid]" in cli.refused(None, "jobs", "list", TOKEN="sgn_wrong")
    assert "[token_invalid]" in cli.refused(None, "jobs", "list", "--token-file", tmp_path / "none")
    file = tmp_path / "token"
    file.write_text(cli.tokens["shop"] + "\n")
    assert cli.json(None, "jobs", "list", "--token-file", file)["jobs"] == []


def test_a_database_that_is_away_is_one_line_without_the_password(cli: Cli) -> None:
    address = "postgresql://signoff:hunter2@127.0.0.1:1/signoff"
    said = cli.refused("shop", "jobs", "list", DATABASE_URL=address)
    assert said.startswith("signoff: the database can't be reached: ")
    assert said.rstrip().endswith("[store_unavailable]")
    assert "hunter2" not in said


def test_an_address_that_cannot_be_read_is_not_repeated(cli: Cli) -> None:
    said = cli.refused("shop", "jobs", "list", DATABASE_URL="postgresql:/signoff:hunter2@127.0.0.1")
    assert "[settings_invalid]" in said
    assert "hunter2" not in said


def test_with_the_broker_away_a_job_is_accepted_all_the_same(cli: Cli) -> None:
    job = cli.json("shop", "jobs", "submit", AGENT, "x", REDIS_URL="redis://127.0.0.1:1/0")
    assert job["status"] == "queued"


def test_control_characters_of_a_model_or_a_stranger_do_nothing(cli: Cli) -> None:
    cli.ok("shop", "jobs", "submit", AGENT, "\x1b[2J\u202eevil", "--thread", "\x1b[31mred")
    job = cli.json("shop", "jobs", "list")["jobs"][0]
    for shown in (cli.ok("shop", "jobs", "show", job["job_id"]), cli.ok("shop", "jobs", "list")):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "\\x1b[31mred" in shown


def _ids(page: dict[str, list[dict[str, str]]]) -> list[UUID]:
    return [UUID(job["job_id"]) for job in page["jobs"]]
