"""Edits that a checkpoint could not hold are refused before they are stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.tools import tool

from signoff.domain.errors import SignoffError
from signoff.domain.jobs import JobStatus
from signoff.domain.policy import review
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import effect
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio


@effect("idempotent")
@tool
def pay(amount: int, note: dict[str, Any] | None = None) -> str:
    """Pays."""
    return f"paid {amount}"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=5) as services:
        yield services.store


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    "args",
    [
        {"amount": 2**64},
        {"amount": -(2**63) - 1},
        {"amount": 1, "note": {"x": [2**70]}},
        {"amount": 1, "note": nested(97)},
    ],
    ids=["too large", "too small", "within", "deep"],
)
async def test_an_edit_is_refused_or_goes_through_to_the_end(store: PostgresStore, args: dict[str, Any]) -> None:
    shop = Workshop(store, [pay], calling(("pay", {"amount": 1})), "Done.", rules=[review("*", reviewers=["finance"])])
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    try:
        await shop.decide(job.id, {"type": "edit", "edited_action": {"name": "pay", "args": args}})
    except SignoffError:
        await shop.decide(job.id, {"type": "approve"})
    job = await shop.run(job.id)
    assert (job.status, job.error_message) == (JobStatus.succeeded, None)
