"""`signoff standing`: with a token, as everybody who decides."""

from __future__ import annotations

import pytest

from tests.support.cli import Cli
from tests.support.parked import AGENT, parked


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    cli = Cli(database_url, redis_url)
    token = cli.ok(None, "tokens", "create", "--name", "stan", "--group", "finance", "--right", "review", "--right",
                   "standing", "--quiet")  # fmt: skip
    cli.tokens = {**cli.tokens, "stan": token.strip()}
    return cli


CREATE = ("standing", "create", "--agent", AGENT, "--tool", "refund")


def test_create_list_and_revoke(cli: Cli) -> None:
    job = cli.world(parked)
    made = cli.json("stan", *CREATE, "--allow", "--for", "8h", "--when", "args.amount <= 20", "--reason", "a sale")
    assert (made["verdict"], made["when"], made["created_by"]) == ("allow", "args.amount <= 20", "stan")
    denied = cli.json("stan", *CREATE, "--deny", "--job", job.job_id, "--thread", job.thread_id)
    assert (denied["verdict"], denied["job_id"]) == ("deny", str(job.job_id))
    assert cli.json("olga", "standing", "list")["standing_approvals"] == [denied, made]
    assert "a sale" in cli.ok("stan", "standing", "list")
    cli.ok("stan", "standing", "revoke", made["standing_id"])
    assert cli.json("stan", "standing", "list", "--state", "active")["standing_approvals"] == [denied]
    assert "[standing_approval_not_found]" in cli.refused("rita", "standing", "revoke", denied["standing_id"])
    assert "stan" in cli.ok("stan", *CREATE, "--deny", "--for", "1d")


def test_what_is_refused(cli: Cli) -> None:
    assert "[token_invalid]" in cli.refused(None, *CREATE, "--allow", "--for", "1d")
    assert "[right_missing]" in cli.refused("rita", *CREATE, "--allow", "--for", "1d")
    assert "[invalid_request]" in cli.refused("stan", *CREATE, "--allow", "--for", "91d")
    assert "[invalid_request]" in cli.refused("stan", *CREATE, "--allow", "--for", "1d", "--when", "amount < 3")
    for arguments in ("", "--for 1d", "--allow", "--allow --deny --for 1d", "--allow --for x"):
        cli.usage_error("stan", *CREATE, *arguments.split())
    assert cli.json("olga", "standing", "list")["standing_approvals"] == []


@pytest.mark.parametrize("right", ["review", "standing"])
def test_a_service_cannot_have_what_is_personal(cli: Cli, right: str) -> None:
    said = cli.usage_error(None, "tokens", "create", "--name", "bot", "--kind", "service", "--right", right)
    assert f"only persons have the right {right}" in said
