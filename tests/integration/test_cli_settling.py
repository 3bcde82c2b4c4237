"""`signoff effects` where it takes two people, a provider that is asked, or a review; and stopping a bulk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli
from tests.support.operators import RISKY, hire, sent, set_policy
from tests.support.parked import IN_DOUBT, ended, submitted
from tests.support.reviewing import change, rows

APPLIED = ("--applied", "--reference", "re_1", "--reason", "seen in the bank")


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    cli = Cli(database_url, redis_url)
    cli.tokens = {**cli.tokens, **cli.world(hire)}
    return cli


async def in_doubt(store: PostgresStore) -> str:
    return (await sent(store, IN_DOUBT))[1]


def test_the_second_person_sees_the_finding_and_is_asked(cli: Cli) -> None:
    cli.world(lambda store: set_policy(store, RISKY))
    operation = cli.world(in_doubt)
    proposed = cli.run("olga", "effects", "resolve", operation, *APPLIED)
    assert proposed.exit_code == 0
    assert "another person has to confirm it" in proposed.stderr
    assert f"signoff effects confirm {operation}" in proposed.stdout
    confirm = ("effects", "confirm", operation, "--reason", "I see it, too")
    assert "[second_person_needed]" in cli.run("olga", *confirm, input="y\n").stderr
    declined = cli.run("oscar", *confirm, input="n\n")
    assert declined.exit_code == 1
    assert "olga has found out, and says why: seen in the bank" in declined.stderr
    assert '"reference": "re_1"' in declined.stderr
    assert cli.json("olga", "effects", "show", operation)["status"] == "in_doubt"
    waiting = cli.json("olga", "effects", "show", operation)["settlement"]["settlement_id"]
    confirmed = cli.json("oscar", *confirm, "--settlement", waiting)
    assert (confirmed["status"], confirmed["provider_reference"]) == ("succeeded", "re_1")
    assert "[settlement_not_found]" in cli.refused("oscar", "effects", "withdraw", operation, "--reason", "x")


def test_a_provider_is_asked_and_what_it_says_is_waited_for(cli: Cli) -> None:
    operation = cli.world(in_doubt)
    probe = ("effects", "probe", operation, "--reason", "the customer asks", "--wait", 0, "--request-id", "r-1")
    assert "[effect_not_probeable]" in cli.refused("olga", *probe)
    cli.world(lambda store: change(store, "UPDATE signoff.effects SET class = 'queryable'"))
    asked = cli.run("olga", *probe)
    assert asked.exit_code == 0
    assert "no answer yet" in asked.stderr
    answered = (
        "INSERT INTO signoff.probes (operation_id, attempt, actor, finding)"
        " SELECT operation_id, 1, 'worker-1', 'applied' FROM signoff.effects"
    )
    cli.world(lambda store: change(store, answered))
    assert "applied after try 1  by worker-1" in cli.ok("olga", *probe)


def test_what_undoes_an_effect_is_asked_for(cli: Cli) -> None:
    undone = {"refund": {"class": "opaque", "compensation": {"tool": "charge", "args": {"order": "args.order"}}}}
    undone["charge"] = {"schema": {"properties": {"order": {"type": "string"}}}}
    cli.world(lambda store: set_policy(store, RISKY, **undone))
    operation = cli.world(in_doubt)
    act = ("effects", "compensate", operation, "--reason", "a mistake")
    assert "[effect_not_repeatable]" in cli.refused("olga", *act)
    cli.world(lambda store: change(store, "UPDATE signoff.effects SET status = 'succeeded', doubt_since = NULL"))
    assert "[call_denied]" in cli.refused("olga", *act)
    assert "must be an object" in cli.usage_error("olga", *act, "--args", "[]")
    assert "[malformed_json]" in cli.refused("olga", *act, "--args", "{")
    asked = cli.json("olga", "effects", "execute-again", operation, "--reason", "lost", "--request-id", "r-1")
    assert asked["review"]["items"][0]["args"] == {"order": "A-1", "amount": 30}
    again = cli.ok("olga", "effects", "execute-again", operation, "--reason", "lost", "--request-id", "r-1")
    assert asked["review_id"] in again


# --- stopping a bulk -------------------------------------------------------------------------------------------------


async def failed_jobs(store: PostgresStore) -> None:
    for _ in range(3):
        await ended(store, (await submitted(store)).id, well=False)


async def retried(store: PostgresStore) -> int:
    return len(await rows(store, "SELECT FROM signoff.events WHERE type = 'signoff.job.retried.v1'"))


def test_ctrl_c_stops_between_two_items_and_the_same_command_goes_on(cli: Cli, tmp_path: Path) -> None:
    cli.world(failed_jobs)
    file = tmp_path / "plan.json"
    cli.ok("olga", "replay", "plan", "--jobs", "--out", file)
    act = ["replay", "apply", str(file), "--apply", "--reason", "it is mended", "--json"]
    with _started(cli, *act, "--per-second", "2") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=20)
    stopped = [first, *map(json.loads, rest.splitlines())]
    assert process.returncode == 1
    assert f"stopped after {len(stopped)} of 3" in told
    assert (cli.world(retried), {result["did"] for result in stopped}) == (len(stopped), {"done"})
    results = [json.loads(line)["did"] for line in cli.ok("olga", *act).splitlines()]
    assert results == ["repeated"] * len(stopped) + ["done"] * (3 - len(stopped))
    assert cli.world(retried) == 3


def _started(cli: Cli, *arguments: str) -> subprocess.Popen[str]:
    settings = {"DATABASE_URL": cli.database_url, "REDIS_URL": cli.redis_url, "TOKEN": cli.tokens["olga"]}
    environment = {**os.environ, **{f"SIGNOFF_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "signoff.infra.cli", *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
