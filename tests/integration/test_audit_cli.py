"""`signoff audit`, and the doctor's look at it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import NoHints
from signoff.infra.settings import Settings
from tests.support.audit import as_owner, seal_all
from tests.support.cli import Cli
from tests.support.parked import parked


@pytest.fixture
def cli(database_url: str) -> Cli:
    return Cli(database_url, "redis://127.0.0.1:1")


def seal(cli: Cli) -> str:
    """Seals what there is; the head."""

    async def act() -> str:
        async with open_services(Settings(), Addresses(cli.database_url, ""), hints=NoHints(), pool_size=3) as services:
            return str(await seal_all(services))

    return asyncio.run(act())


def findings(cli: Cli, *arguments: object) -> list[tuple[str, int | None, int | None]]:
    result = cli.run(None, "audit", "verify", "--json", *arguments)
    document: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (0 if document["ok"] else 1)
    assert (document["head"] is None) == (not document["ok"])
    return [(found["wrong"], found["seal"], found["position"]) for found in document["findings"]]


def test_the_head_is_printed_and_holds_later(cli: Cli) -> None:
    head = seal(cli)
    assert cli.ok(None, "audit", "verify") == f"{head}\n"
    cli.world(parked)
    assert seal(cli) != head
    assert cli.ok(None, "audit", "verify", "--head", head) != f"{head}\n"
    other = f"{head.partition(':')[0]}:{'0' * 64}"
    assert findings(cli, "--head", other) == [("head_differs", int(other.partition(":")[0]), None)]
    result = cli.run(None, "audit", "verify", "--head", other)
    assert result.exit_code == 1
    assert "head_differs" in result.stdout


def test_an_audit_without_a_seal(cli: Cli) -> None:
    assert cli.ok(None, "audit", "verify") == ""
    assert cli.ok(None, "audit", "export") == ""


def test_an_export_is_verified_without_the_database(cli: Cli, tmp_path: Path) -> None:
    first = seal(cli)
    cli.world(parked)
    head = seal(cli)
    whole, rest = tmp_path / "whole.jsonl", tmp_path / "rest.jsonl"
    assert cli.ok(None, "audit", "export", "--output", whole) == ""
    assert whole.read_text() == cli.ok(None, "audit", "export")
    cli.ok(None, "audit", "export", "--after", first.partition(":")[0], "--output", rest)
    away = {"DATABASE_URL": "postgresql://127.0.0.1:1/nothing"}
    assert cli.ok(None, "audit", "verify", "--file", whole, "--head", head, **away) == f"{head}\n"
    assert cli.ok(None, "audit", "verify", "--file", rest, "--head", first, **away) == f"{head}\n"
    assert "it begins at seal" in cli.run(None, "audit", "verify", "--file", rest).stderr
    lines = whole.read_text().splitlines(keepends=True)
    whole.write_text("".join(lines[:1] + lines[2:]))
    assert findings(cli, "--file", whole) == [("row_removed", 1, 1)]
    assert "can't be written" in cli.usage_error(None, "audit", "export", "--output", rest)


def test_an_export_of_what_was_changed_says_so_and_keeps_it(cli: Cli, tmp_path: Path) -> None:
    seal(cli)
    as_owner(cli.database_url, "UPDATE signoff.audit SET actor = 'mallory' WHERE position = 1")
    file = tmp_path / "audit.jsonl"
    assert "not as it was written" in cli.refused(None, "audit", "export", "--output", file)
    assert findings(cli, "--file", file) == findings(cli) == [("row_edited", 1, 1)]


def test_rows_that_nobody_seals(cli: Cli) -> None:
    seal(cli)
    job = cli.world(parked)
    assert json.loads(cli.run(None, "audit", "verify", "--json").stdout)["unsealed"] == 2
    old = "UPDATE signoff.audit SET at = at - interval '2 minutes' WHERE job_id = '{}'"
    as_owner(cli.database_url, old.format(job.job_id))
    result = cli.run(None, "audit", "verify")
    assert result.exit_code == 0
    assert "2 rows are not sealed, the oldest for 12" in result.stderr
    (check,) = [
        check for check in json.loads(cli.run(None, "doctor", "--json").stdout)["checks"] if check["name"] == "audit"
    ]
    assert not check["ok"]
    assert check["found"].startswith("2 rows are not sealed")


def test_the_acts_of_a_job(cli: Cli) -> None:
    job = cli.world(parked)
    rows = cli.json(None, "audit", "list", "--job", job.job_id)["rows"]
    assert [row["act"] for row in rows] == ["job.accepted", "item.proposed"]
    assert {row["job"] for row in rows} == {str(job.job_id)}
    (last,) = cli.json(None, "audit", "list", "--job", job.job_id, "--after", rows[0]["position"])["rows"]
    assert last == rows[1]
    table = cli.ok(None, "audit", "list", "--job", job.job_id, "--limit", 1)
    assert "job.accepted" in table
    assert "item.proposed" not in table


def test_bad_usage(cli: Cli) -> None:
    for arguments in (
        ["verify", "--head", "12"],
        ["verify", "--file", "/nowhere"],
        ["export", "--after", "-1"],
        ["list"],
    ):
        cli.usage_error(None, "audit", *arguments)
