"""`signoff policy init` from the tools that an agent registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.domain import Policy, parse_policy
from signoff.infra.postgres.store import PostgresStore
from tests.support.cli import Cli

TOOLS = {"refund": {"schema": {"type": "object"}, "class": "keyed"}, "lookup_order": {"schema": {}, "class": "read"}}


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


async def register(store: PostgresStore) -> None:
    async with store.begin() as tx:
        await tx.agents.register("desk", TOOLS, Policy())


def test_the_registered_tools_get_their_rules(cli: Cli, tmp_path: Path) -> None:
    cli.world(register)
    file = tmp_path / "policy.toml"
    cli.ok(None, "policy", "init", "--agent", "desk", "--reviewers", "finance", "--output", file)
    policy = parse_policy(file.read_text(encoding="utf-8"))
    assert [(rule.tool, rule.verdict, rule.reviewers) for rule in policy.rules] == [
        ("refund", "review", ("finance",)),
        ("lookup_order", "allow", ()),
    ]


def test_an_agent_that_nobody_registered(cli: Cli) -> None:
    assert "[agent_not_found]" in cli.refused(None, "policy", "init", "--agent", "dsk")
