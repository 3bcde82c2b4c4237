"""R28: a backup is restored from before some effects. They become in doubt, and are not run again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from signoff.domain.effects import EffectStatus, Outcome, Step
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding, Settlement, resolve_effect
from signoff.domain.policy import Rule, allow, review
from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.hints import NoHints
from signoff.infra.postgres.restoring import FENCES, Restored, mark_restored
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers.dispatcher import DoubtLapsedEffects
from tests.support.api import open_store
from tests.support.backups import back_up, restored
from tests.support.databases import ConfiguredServer
from tests.support.models import calling
from tests.support.parked import OPERATOR
from tests.support.paying import Provider
from tests.support.runners import ENVIRONMENT
from tests.support.till import Shop

pytestmark = pytest.mark.anyio

S = EffectStatus
APPROVE = {"type": "approve"}
ASK = (review("*", reviewers=["finance"]),)
CLASSES: dict[str, dict[str, Any]] = {
    "opaque": {},
    "keyed": {"window": timedelta(hours=24)},
    "queryable": {},
    "idempotent": {},
}


class Payments(Provider):
    """The same, and the effect behind each key happens once, as where the provider honours keys."""

    def request(self, to: str) -> str:
        said = super().request(to)
        if len(set(self.keys)) < len(self.keys):
            self.applied.pop()
            self.keys.pop()
            self.repeats += 1
        return said

    repeats: int = 0


class Desk(Shop):
    """A worker over one tool, all of whose calls a person has to allow."""

    def __init__(
        self, store: PostgresStore, provider: Provider, effect_class: str, *answers: Any, rules: Sequence[Rule] = ASK
    ) -> None:
        tool = provider.tool(effect_class, **CLASSES[effect_class])
        super(Shop, self).__init__(store, [tool], *answers, rules=rules)


@dataclass
class World:
    """What happened before the loss: a job whose call was approved before the backup and left after it, and one that
    was asked about before the backup and approved after it. Each call was made once."""

    effect_class: str
    provider: Payments
    approved: UUID
    parked: UUID
    backup: Path
    backed_up_at: datetime
    redone: Restored | None = field(default=None)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    async with open_services(Settings(), Addresses(url, ""), hints=NoHints(), pool_size=5) as services:
        yield services.store


async def lost_world(database_url: str, folder: Path, effect_class: str) -> World:
    async with open_store(database_url) as services:
        provider = Payments()
        calls = [calling(("pay", {"to": to})) for to in ("ada", "bob")]
        desk = Desk(services.store, provider, effect_class, *calls, "Done.", "Done.")
        await desk.enrol()
        approved, parked = [(await desk.run((await desk.submit()).id)).id for _ in calls]
        await desk.say(approved, APPROVE)
        async with services.store.begin() as tx:
            now = await tx.now()
        backup = back_up(database_url, folder)
        assert (await desk.run(approved)).status is JobStatus.succeeded
        await desk.say(parked, APPROVE)
        assert (await desk.run(parked)).status is JobStatus.succeeded
    assert provider.applied == ["ada", "bob"]
    return World(effect_class, provider, approved, parked, backup, now)


@asynccontextmanager
async def restored_world(world: World, server_url: str) -> AsyncIterator[Desk]:
    """The backup in the database's place, told of, with a worker over it."""
    with restored(world.backup, server_url) as url:
        async with opened(url) as store:
            async with store.begin() as tx:
                world.redone = await mark_restored(tx.conn, world.backed_up_at, "the disk is gone", "olga")
            yield Desk(store, world.provider, world.effect_class, "Done.", "Done.")


@pytest.fixture
def server_url(postgres_server: Any) -> str:
    if isinstance(postgres_server, ConfiguredServer):
        pytest.skip("pg_dump may be older than the server that was configured")
    url: str = postgres_server.url
    return url


async def after(desk: Desk, job_id: UUID, *, approve: bool) -> tuple[JobStatus, EffectStatus]:
    if approve:
        await desk.say(job_id, APPROVE)
    job = await desk.run(job_id)
    (found,) = await desk.effects(job_id)
    return job.status, found.status


async def test_opaque_calls_are_in_doubt_and_an_operator_settles_them(
    database_url: str, server_url: str, tmp_path: Path
) -> None:
    world = await lost_world(database_url, tmp_path, "opaque")
    async with restored_world(world, server_url) as desk:
        for job_id, approve in ((world.approved, False), (world.parked, True)):
            assert await after(desk, job_id, approve=approve) == (JobStatus.awaiting_operator, S.in_doubt)
        assert world.provider.applied == ["ada", "bob"]
        told = await desk.sql(
            "SELECT DISTINCT data ->> 'message' AS said FROM signoff.events WHERE type = 'signoff.effect.doubted.v1'"
        )
        assert "a backup was restored" in told[0]["said"]

        (found,) = await desk.effects(world.parked)
        settlement = Settlement(OPERATOR, "not in their books")
        await resolve_effect(
            desk.store, NoHints(), found.operation_id, Finding.not_applied, settlement, None, environment=ENVIRONMENT
        )
        assert await after(desk, world.parked, approve=False) == (JobStatus.succeeded, S.succeeded)
        assert (len(world.provider.applied), world.provider.repeats) == (2, 1), "once it is said, it goes out again"


async def test_a_key_that_is_still_good_is_sent_again_and_the_provider_knows_it(
    database_url: str, server_url: str, tmp_path: Path
) -> None:
    world = await lost_world(database_url, tmp_path, "keyed")
    async with restored_world(world, server_url) as desk:
        for job_id, approve in ((world.approved, False), (world.parked, True)):
            assert await after(desk, job_id, approve=approve) == (JobStatus.succeeded, S.succeeded)
    assert (world.provider.applied, world.provider.repeats) == (["ada", "bob"], 2)


async def test_a_key_whose_window_began_too_long_ago_is_not(database_url: str, server_url: str, tmp_path: Path) -> None:
    world = await lost_world(database_url, tmp_path, "keyed")
    world.backed_up_at -= timedelta(hours=24)
    async with restored_world(world, server_url) as desk:
        for job_id, approve in ((world.approved, False), (world.parked, True)):
            assert await after(desk, job_id, approve=approve) == (JobStatus.awaiting_operator, S.in_doubt)
    assert (world.provider.applied, world.provider.repeats) == (["ada", "bob"], 0)


async def test_a_provider_that_can_be_asked_is_asked(database_url: str, server_url: str, tmp_path: Path) -> None:
    world = await lost_world(database_url, tmp_path, "queryable")
    async with restored_world(world, server_url) as desk:
        for job_id, approve in ((world.approved, False), (world.parked, True)):
            assert await after(desk, job_id, approve=approve) == (JobStatus.succeeded, S.succeeded)
    assert (world.provider.applied, len(world.provider.asked), world.provider.repeats) == (["ada", "bob"], 2, 0)


async def test_what_is_harmless_is_done_again(database_url: str, server_url: str, tmp_path: Path) -> None:
    world = await lost_world(database_url, tmp_path, "idempotent")
    async with restored_world(world, server_url) as desk:
        for job_id, approve in ((world.approved, False), (world.parked, True)):
            assert await after(desk, job_id, approve=approve) == (JobStatus.succeeded, S.succeeded)
    assert world.provider.repeats == 2


async def test_an_edit_is_another_call_and_nobody_can_tell_what_left_in_its_place(
    database_url: str, server_url: str, tmp_path: Path
) -> None:
    world = await lost_world(database_url, tmp_path, "queryable")
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "eve"}}}
    async with restored_world(world, server_url) as desk:
        await desk.say(world.parked, edit)
        assert (await desk.run(world.parked)).status is JobStatus.awaiting_operator
        (found,) = await desk.effects(world.parked)
        assert found.status is S.in_doubt
    assert world.provider.applied == ["ada", "bob"]
    assert found.operation_id not in world.provider.asked


async def test_a_call_that_a_rule_allows_may_have_left_under_a_key_that_nobody_knows(
    database_url: str, server_url: str, tmp_path: Path
) -> None:
    async with open_store(database_url) as services:
        queued = await Desk(services.store, Payments(), "keyed").submit()
        backup = back_up(database_url, tmp_path)
    with restored(backup, server_url) as url:
        async with opened(url) as store:
            async with store.begin() as tx:
                await mark_restored(tx.conn, await tx.now(), "the disk is gone", "olga")
            provider = Payments()
            desk = Desk(store, provider, "keyed", calling(("pay", {"to": "ada"})), "Done.", rules=[allow("*")])
            await desk.run(queued.id)
            assert provider.keys == []
            new = Desk(store, provider, "keyed", calling(("pay", {"to": "bob"})), "Done.", rules=[allow("*")])
            assert (await new.run((await new.submit()).id)).status is JobStatus.succeeded
            assert provider.applied == ["bob"], "a job that began after the restore has lost nothing"


async def test_workers_that_outlived_the_loss_are_fenced_off_and_what_they_left_is_in_doubt(
    database_url: str, server_url: str, tmp_path: Path
) -> None:
    async with open_store(database_url) as services:
        desk = Desk(services.store, Payments(behaves=["lost"]), "opaque", calling(("pay", {"to": "ada"})))
        job_id = (await desk.run((await desk.submit()).id)).id
        await desk.say(job_id, APPROVE)
        await desk.sql("UPDATE signoff.jobs SET status = 'running', fence = 7, lease_until = 'infinity'")
        await desk.sql("UPDATE signoff.effects SET status = 'dispatched', fence = 7, attempts = 1, class = 'opaque'")
        backup = back_up(database_url, tmp_path)
    with restored(backup, server_url) as url:
        async with opened(url) as store:
            async with store.begin() as tx:
                now = await tx.now()
                await mark_restored(tx.conn, now, "the disk is gone", "olga")
            after_it = Desk(store, Payments(), "opaque")
            assert await after_it.sql("SELECT status, fence FROM signoff.jobs") == [
                {"status": "queued", "fence": 7 + FENCES}
            ]
            await DoubtLapsedEffects(store).step()
            ((found,), step) = await after_it.effects(job_id), Step(S.succeeded, doubt=False)
            assert found.status is S.in_doubt
            async with store.begin() as tx:
                late = {"actor": "worker-1", "outcome": Outcome.succeeded, "job_fence": 7}
                assert not await tx.effects.move(found, step, **late)  # type: ignore[arg-type]
