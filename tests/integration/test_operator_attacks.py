"""Bad input to what operators do: it is refused in words, and nothing has changed."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.canonical import canonical_json
from signoff.domain.dead_letters import LetterId
from signoff.domain.errors import SignoffError
from signoff.domain.replay_plans import Entry, Wanted
from signoff.domain.replaying import Applied, Did, apply_entry, check_plan, plan_replay
from signoff.domain.retrying import retry_job
from signoff.domain.running import hold
from signoff.infra import dead_letter_acts
from tests.support.api import dump, open_api
from tests.support.cli import Cli
from tests.support.operators import sent, set_policy
from tests.support.parked import FAILED, OPERATOR, POLICY, claimed, parked, submitted

HUGE = 10**400
NO_TEXT = "a\udcff"  # how Python hands on a byte of the command line that is no UTF-8


@pytest.mark.anyio
async def test_numbers_and_names_that_nothing_can_hold_are_refused(database_url: str) -> None:
    async with open_api(database_url) as api:
        job = await parked(api.store)
        before = dump(database_url)
        requests = [
            await api.post("olga", f"/v1/pauses/{uuid4()}/end", {"reason": "mended", "per_second": HUGE}),
            await api.post("rita", f"/v1/reviews/{job.review_id}/claim", {"seconds": HUGE}),
            await api.post("olga", "/v1/replays/plan", {"operations": ["op\x00"]}),
        ]
        for answer in requests:
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), answer.text
        assert dump(database_url) == before


@pytest.mark.anyio
@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "job", "id": "no id", "would": "retry"},
        {"kind": ["effect"]},
        {"id": 5},
        {"id": ["op"]},
        {"saw": "failed"},
        {"saw": None},
    ],
)
async def test_a_plan_that_somebody_has_written_anew_is_none(database_url: str, changes: dict[str, Any]) -> None:
    async with open_api(database_url) as api:
        await set_policy(api.store, POLICY, refund={})
        _, operation = await sent(api.store, FAILED)
        plan = (await api.post("olga", "/v1/replays/plan", {"operations": [operation]})).json()
        plan["entries"][0] |= changes
        del plan["digest"]
        plan["digest"] = hashlib.sha256(canonical_json(plan)).hexdigest()
        before = dump(database_url)
        answer = await api.post("olga", "/v1/replays/apply", {"plan": plan, "reason": "again"})
        assert (answer.status_code, answer.json()["code"]) == (422, "plan_altered"), answer.text
        assert dump(database_url) == before


@pytest.mark.anyio
async def test_who_was_revoked_meanwhile_replays_no_more(database_url: str) -> None:
    async with open_api(database_url) as api:
        await set_policy(api.store, POLICY, refund={})
        for _ in range(2):
            await sent(api.store, FAILED)
        plan = await plan_replay(api.store, Wanted(), OPERATOR, environment="test")
        checked = await check_plan(api.store, plan, OPERATOR, environment="test", first=None, limit=2)

        async def apply(entry: Entry) -> Applied:
            where = (api.store, api.services.hints, checked)
            return await apply_entry(*where, entry, OPERATOR, "again", environment="test")

        first, second = checked.part
        assert (await apply(first)).did is Did.done
        async with api.store.begin() as tx:
            await tx.conn.execute("UPDATE signoff.principals SET revoked_at = now() WHERE name = 'olga'")
        before = dump(database_url)
        refused = await apply(second)
        assert (refused.did, refused.code) == (Did.refused, "right_missing")
        assert dump(database_url) == before


def test_what_the_command_line_can_not_hold_is_bad_usage(database_url: str, redis_url: str, tmp_path: Path) -> None:
    export = tmp_path / "export.csv"
    export.write_text("idempotency_key\n")
    cli = Cli(database_url, redis_url)
    before = dump(database_url)
    for arguments in (
        ("effects", "replay", NO_TEXT, "--reason", "r"),
        ("effects", "resolve", NO_TEXT, "--applied", "--reference", "x", "--reason", "r"),
        ("effects", "skip", NO_TEXT, "--result", "x", "--reason", "r"),
        ("effects", "compensate", NO_TEXT, "--reason", "r"),
        ("effects", "execute-again", NO_TEXT, "--reason", "r"),
        ("jobs", "fork", uuid4(), "--checkpoint", "", "--reason", "r"),
        ("dead-letters", "requeue", "message:1", "--body", tmp_path, "--reason", "r"),
        ("dead-letters", "discard", "effect:op", "--substitute", " ", "--reason", "r"),
        ("reconcile", export, "--tool", "t", "--since", "9999-12-31T23:59:59-12:00"),
        ("verify", "--settled-for", "inf"),
        ("restored", "--since", "2020-01-01T00:00:00Z", "--reason", NO_TEXT),
    ):
        cli.usage_error("olga", *arguments)
    refused = cli.refused("olga", "replay", "plan", "--operation", NO_TEXT)
    assert "invalid_request" in refused
    assert dump(database_url) == before


@pytest.mark.anyio
async def test_a_run_that_goes_on_again_is_not_discarded(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody retries the job between the look at the dead letter and the act."""
    async with open_api(database_url) as api:
        job_id = (await submitted(api.store)).id
        job = await claimed(api.store, job_id)
        async with api.store.begin() as tx:
            await tx.jobs.fence(job)
            await hold(tx, job, "run_failed", "the model is away", operations=[])
        look = dead_letter_acts._check

        async def look_and_be_late(*asked: Any) -> bool:
            found = await look(*asked)
            await retry_job(api.store, api.services.hints, job_id, OPERATOR, "mended")
            await claimed(api.store, job_id)
            return found

        monkeypatch.setattr(dead_letter_acts, "_check", look_and_be_late)
        request = dead_letter_acts.Request(LetterId.parse(f"run:{job_id}"), "give it up")
        with suppress(SignoffError):
            await dead_letter_acts.discard(api.services, OPERATOR, request)
        assert not (await api.get("olga", f"/v1/jobs/{job_id}")).json()["cancel_requested"]
