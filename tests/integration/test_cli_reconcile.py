"""`signoff reconcile`, and `verify` with a provider's books: what differs is found, and settled by operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli
from tests.support.paying_desk import paid

OPTIONS = ("--tool", "pay", "--reference-column", "id")


@pytest.fixture
def cli(database_url: str) -> Cli:
    return Cli(database_url, "redis://127.0.0.1:1")


@pytest.fixture
def operations(cli: Cli) -> dict[str, str]:
    async def world(store: PostgresStore) -> dict[str, str]:
        ways = {"succeeded": "ok", "lost": "ok", "doubted": "lost", "failed": "refuse"}
        return {name: (await paid(store, "opaque", behaves)).operation_id for name, behaves in ways.items()}

    return cli.world(world)


def export(tmp_path: Path, *rows: tuple[str, str]) -> Path:
    file = tmp_path / "export.csv"
    file.write_text("idempotency_key,id\n" + "".join(f"{key},{reference}\n" for key, reference in rows))
    return file


def test_books_that_agree(cli: Cli, operations: dict[str, str], tmp_path: Path) -> None:
    file = export(tmp_path, (f"{operations['succeeded']}.0", "p-1"), (operations["lost"], "p-1"), ("", "other"))
    said = cli.json("olga", "reconcile", file, *OPTIONS)
    assert (said["ok"], said["records"], said["without_key"], said["effects"]) == (True, 2, 1, 4)
    assert said["counts"]["agrees"] == 3
    assert said["counts"]["open"] == 1
    assert cli.run(None, "verify", "--provider", file, *OPTIONS).exit_code == 0


def differing(operations: dict[str, str], tmp_path: Path) -> Path:
    return export(
        tmp_path,
        (f"{operations['succeeded']}.0", "p-1"),
        (f"{operations['succeeded']}.0", "re_2"),
        (f"{operations['doubted']}.0", "re_3"),
        (f"{operations['failed']}.0", "re_4"),
        ("order-7", "re_5"),
    )


def test_books_that_differ(cli: Cli, operations: dict[str, str], tmp_path: Path) -> None:
    file = differing(operations, tmp_path)
    result = cli.run("olga", "reconcile", file, *OPTIONS)
    assert result.exit_code == 1
    assert f"signoff effects resolve {operations['doubted']} --applied --reference re_3" in result.stdout
    for kind in ("applied twice", "applied not recorded", "recorded not applied", "unknown to ledger"):
        assert kind in result.stdout
    assert cli.json("olga", "effects", "show", operations["doubted"])["status"] == "in_doubt"

    said = cli.run(None, "verify", "--provider", file, *OPTIONS, "--json")
    assert said.exit_code == 1
    for of in (operations["succeeded"], operations["failed"], operations["lost"], "order-7"):
        assert of in said.stdout
    assert operations["doubted"] not in said.stdout, "the ledger does not deny it"


def test_what_the_export_answers_is_settled_once(cli: Cli, operations: dict[str, str], tmp_path: Path) -> None:
    file = differing(operations, tmp_path)
    result = cli.run("olga", "reconcile", file, *OPTIONS, "--settle")
    assert result.exit_code == 1, "the other differences remain"
    assert f"{operations['doubted']}  settled: applied, re_3" in result.stdout
    view = cli.json("olga", "effects", "show", operations["doubted"])
    assert (view["status"], view["provider_reference"]) == ("succeeded", "re_3")
    assert "export.csv (SHA-256 " in str(view)
    again = cli.run("olga", "reconcile", file, *OPTIONS, "--settle", "--json")
    assert '"settled": []' in again.stdout
    assert cli.run(None, "verify").exit_code == 0


def test_a_file_that_can_not_be_read_settles_nothing(cli: Cli, operations: dict[str, str], tmp_path: Path) -> None:
    file = differing(operations, tmp_path)
    file.write_text(file.read_text() + "one,two,three\n")
    assert "line 7: it is 3 columns [export_unreadable]" in cli.refused("olga", "reconcile", file, *OPTIONS, "--settle")
    assert cli.json("olga", "effects", "show", operations["doubted"])["status"] == "in_doubt"


def test_who_may_and_how(cli: Cli, tmp_path: Path) -> None:
    file = export(tmp_path)
    assert "[right_missing]" in cli.refused("rita", "reconcile", file, *OPTIONS)
    assert "one of --tool and --provider" in cli.usage_error("olga", "reconcile", file)
    assert "--reference-column" in cli.usage_error("olga", "reconcile", file, "--tool", "pay", "--settle")
    assert "go together" in cli.usage_error("olga", "reconcile", file, *OPTIONS, "--status-column", "state")
    assert "go together" in cli.usage_error(None, "verify", "--provider", file)


def test_verify_says_what_it_looked_at_and_what_nobody_can_tell(cli: Cli, operations: dict[str, str]) -> None:
    said = cli.json(None, "verify")
    assert said["ok"]
    assert {check["invariant"] for check in said["checks"]} == {f"I{n}" for n in range(1, 13)} - {"I4"}
    assert any("I4" in line for line in said["not_checked"])
    assert "calls have their digests" in cli.ok(None, "verify")
    impatient = cli.run(None, "verify", "--settled-for", "0")
    assert (impatient.exit_code, "was not sent to Redis" in impatient.stdout) == (1, True)


def test_verify_names_what_is_wrong(cli: Cli, operations: dict[str, str]) -> None:
    async def tamper(store: PostgresStore) -> None:
        async with store.connection() as conn:
            await conn.execute("UPDATE signoff.effects SET status = 'succeeded' WHERE status = 'failed'")

    cli.world(tamper)
    result = cli.run(None, "verify")
    assert result.exit_code == 1
    assert operations["failed"] in result.stdout
    assert "the ledger claims no more than is known" in result.stderr
