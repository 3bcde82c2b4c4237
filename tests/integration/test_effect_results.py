"""`signoff effects result` and `GET /v1/effects/{operation_id}/result`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import SUCCESS, Outcome, Terms
from signoff.infra.hints import NoHints
from signoff.infra.postgres import results_aside
from signoff.infra.postgres.store import PostgresStore
from signoff.workers.results import pack, within_limit
from tests.support.api import open_api
from tests.support.cli import Cli
from tests.support.parked import REVIEWER, Parked, claimed, parked

LIMIT = 100


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


def succeeded(cli: Cli, content: Any) -> str:
    """An approved refund that was carried out, with this result."""
    review = cli.world(parked)
    cli.ok("rita", "reviews", "decide", review.review_id, "--approve")
    (planned,) = cli.json("olga", "effects", "list", "--job", review.job_id)["effects"]
    operation: str = planned["operation_id"]
    cli.world(lambda store: record(store, review, operation, content))
    return operation


async def record(store: PostgresStore, review: Parked, operation: str, content: Any) -> None:
    job = await claimed(store, review.job_id)
    told, aside = within_limit(pack(ToolMessage(content, tool_call_id="")), LIMIT, operation)
    async with store.begin() as tx:
        await tx.jobs.fence(job)
        effect = await tx.effects.lock(operation)
        assert effect is not None
        effect = await tx.effects.dispatch(effect, Terms(), fence=job.fence, worker="worker-1")
        assert await tx.effects.move(effect, SUCCESS, actor="worker-1", result=told, outcome=Outcome.succeeded)
        if aside is not None:
            await results_aside.keep(tx.conn, operation, aside)


def test_what_was_too_long_for_the_agent_is_there_for_the_operator(cli: Cli, tmp_path: Path) -> None:
    operation = succeeded(cli, text := "line\n" * 1000)
    told = cli.json("olga", "effects", "show", operation)["result"]["content"]
    assert told.startswith("line\n")
    assert len(told) < 500
    whole = cli.json("olga", "effects", "result", operation)
    assert (whole["status"], whole["aside"], whole["tool"]) == ("succeeded", True, "refund")
    assert whole["bytes"] > len(text)
    assert whole["result"] == {"status": "success", "content": text}
    assert cli.ok("olga", "effects", "result", operation) == text + "\n"

    target = tmp_path / "result.txt"
    assert cli.ok("olga", "effects", "result", operation, "--output", target) == ""
    assert target.read_text() == text
    assert "File exists" in cli.usage_error("olga", "effects", "result", operation, "--output", target)


def test_what_fitted_is_there_too(cli: Cli) -> None:
    whole = cli.json("olga", "effects", "result", succeeded(cli, [{"type": "text", "text": "paid"}]))
    assert (whole["aside"], whole["result"]["content"]) == (False, [{"type": "text", "text": "paid"}])


def test_who_may_not_read_the_job_sees_no_result(cli: Cli) -> None:
    operation = succeeded(cli, "paid")
    assert "[effect_not_found]" in cli.refused("other-shop", "effects", "result", operation)
    assert "paid" in cli.ok("shop", "effects", "result", operation)


@pytest.mark.anyio
async def test_http_answers_with_the_same(database_url: str) -> None:
    async with open_api(database_url) as api:
        review = await parked(api.store)
        answers = parse_answers({"decisions": [{"type": "approve"}]})
        decided = await decide_review(
            api.store, NoHints(), review.review_id, answers, REVIEWER, door="test", environment="test"
        )
        operation = decided.decisions[0].operation_id
        await record(api.store, review, operation, "line\n" * 1000)
        found = await api.get("shop", f"/v1/effects/{operation}/result")
        assert (found.status_code, found.json()["result"]["content"]) == (200, "line\n" * 1000)
        assert (await api.get("sam", f"/v1/effects/{operation}/result")).json()["code"] == "effect_not_found"


def test_without_a_result_it_says_so(cli: Cli) -> None:
    review = cli.world(parked)
    cli.ok("rita", "reviews", "decide", review.review_id, "--approve")
    (planned,) = cli.json("olga", "effects", "list", "--job", review.job_id)["effects"]
    assert cli.ok("olga", "effects", "result", planned["operation_id"]) == ""
    assert cli.json("olga", "effects", "result", planned["operation_id"])["result"] is None
