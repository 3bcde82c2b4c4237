"""Checkpoints, forks and repairs through the command line and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from signoff.infra.postgres.store import PostgresStore
from tests.support.api import Api, open_api
from tests.support.cli import Cli
from tests.support.till import FINANCE, Shop, Till

REJECT = {"type": "reject"}


async def refused(store: PostgresStore) -> UUID:
    """A job that has ended, and was parked once."""
    shop = Shop(store, Till(), FINANCE)
    job = await shop.open()
    await shop.say(job.id, REJECT)
    await shop.run(job.id)
    return job.id


async def parked(store: PostgresStore) -> UUID:
    return (await Shop(store, Till(), FINANCE).open()).id


@pytest.fixture
def cli(database_url: str, redis_url: str) -> Cli:
    return Cli(database_url, redis_url)


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as opened:
        yield opened


def test_commands(cli: Cli) -> None:
    job = cli.world(refused)
    newest, park = cli.json("olga", "jobs", "checkpoints", job)["checkpoints"]
    assert (newest["newest"], newest["parked_at"]) == (True, [])
    assert (park["newest"], park["parked_at"]) == (False, [{"kind": "review", "tools": ["pay"]}])
    assert "review of pay" in cli.ok("olga", "jobs", "checkpoints", job)
    assert "[right_missing]" in cli.refused("shop", "jobs", "checkpoints", job)

    options = ("--reason", "again", "--request-id", "r")
    fork = cli.json("olga", "jobs", "fork", job, "--checkpoint", park["checkpoint_id"], "--decisions", "keep", *options)
    assert (fork["status"], fork["door"], fork["submitted_by"]) == ("queued", "fork", "shop")
    (copy,) = cli.json("olga", "jobs", "checkpoints", fork["job_id"])["checkpoints"]
    assert copy["checkpoint_id"] == park["checkpoint_id"]
    assert "[checkpoint_not_found]" in cli.refused("olga", "jobs", "fork", job, "--checkpoint", "x", "--reason", "r")
    cli.usage_error("olga", "jobs", "fork", job)

    assert "[job_not_repairable]" in cli.refused("olga", "jobs", "repair", job, "--reason", "r")
    stuck = cli.world(parked)
    result = cli.run("olga", "jobs", "repair", stuck, "--reason", "a bad answer")
    assert "is superseded" in result.stderr
    assert cli.json("olga", "jobs", "show", stuck)["status"] == "queued"


@pytest.mark.anyio
async def test_routes(api: Api) -> None:
    job = await refused(api.store)
    path = f"/v1/jobs/{job}"
    found = (await api.get("olga", f"{path}/checkpoints")).json()["checkpoints"]
    assert [one["newest"] for one in found] == [True, False]
    assert (await api.get("shop", f"{path}/checkpoints")).status_code == 403
    assert (await api.get("olga", f"/v1/jobs/{UUID(int=0)}/checkpoints")).status_code == 404

    asked = {"reason": "again", "checkpoint_id": found[1]["checkpoint_id"], "decisions": "ask"}
    first = await api.post("olga", f"{path}/fork", asked, Idempotency_Key="k")
    again = await api.post("olga", f"{path}/fork", asked, Idempotency_Key="k")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job_id"] == again.json()["job_id"] != str(job)
    assert first.headers["location"] == f"/v1/jobs/{first.json()['job_id']}"
    for body in (
        {},
        {"reason": "x", "decisions": "some"},
        {"reason": "x", "checkpoint_id": 3},
        {"reason": "x", "a": 1},
    ):
        assert (await api.post("olga", f"{path}/fork", body)).status_code == 422
    assert (await api.post("shop", f"{path}/fork", asked)).status_code == 403

    stuck = await parked(api.store)
    assert (await api.post("olga", f"/v1/jobs/{stuck}/repair", {})).status_code == 422
    done = await api.post("olga", f"/v1/jobs/{stuck}/repair", {"reason": "a bad answer"})
    assert (done.status_code, done.json()["status"], done.json()["pending_reviews"]) == (200, "queued", [])
    assert (await api.post("olga", f"{path}/repair", {"reason": "x"})).json()["code"] == "job_not_repairable"
